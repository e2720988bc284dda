import { HttpFormat as FormatName } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { HttpFormat } from "./format.ts";
import { anthropicFormat } from "./messages-format.ts";
import { openAiFormat } from "./openai.ts";
import { responsesFormat } from "./responses-format.ts";

const formats: Readonly<Record<FormatName, HttpFormat | undefined>> = {
  [FormatName.UNSPECIFIED]: undefined,
  [FormatName.OPENAI]: openAiFormat,
  [FormatName.ANTHROPIC]: anthropicFormat,
  [FormatName.OPENAI_RESPONSES]: responsesFormat,
};

/** The format of a method; undefined for the JSON of its own messages. */
export const formatOf = (name: FormatName): HttpFormat | undefined => formats[name];

/** The formats, longest path prefix first. */
const byPrefix = Object.values(formats)
  .filter((format) => format !== undefined)
  .sort((a, b) => b.pathPrefix.length - a.pathPrefix.length);

/** A path, or the absolute URL that clients of a proxy send. */
const PATH = /^(?:https?:\/\/[^/?#]*)?([^?#]*)/i;

/** The format of a request target, by its path; undefined for our own paths. */
export function formatOfTarget(target = ""): HttpFormat | undefined {
  const path = `${PATH.exec(target)?.[1]}/`;
  return byPrefix.find(({ pathPrefix }) => path.startsWith(pathPrefix));
}
