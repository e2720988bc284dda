import { HttpFormat as FormatName } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { HttpFormat } from "./format.ts";
import { openAiFormat } from "./openai.ts";

const formats: Readonly<Record<FormatName, HttpFormat | undefined>> = {
  [FormatName.UNSPECIFIED]: undefined,
  [FormatName.OPENAI]: openAiFormat,
};

/** The format of a method; undefined for the JSON of its own messages. */
export const formatOf = (name: FormatName): HttpFormat | undefined => formats[name];

/** A path, or the URL that clients of a proxy send. */
const PATH = /^(?:https?:\/\/[^/?#]*)?([^?#]*)/i;

/** The format of a request target, by its path; undefined for paths of our own. */
export function formatOfTarget(target = ""): HttpFormat | undefined {
  const path = `${PATH.exec(target)?.[1]}/`;
  return Object.values(formats).find((format) => format && path.startsWith(format.pathPrefix));
}
