import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { isMessage } from "@bufbuild/protobuf";
import {
  CreateEmbeddingsRequestSchema,
  GetModelResponseSchema,
  type ListedModel,
  ListModelsResponseSchema,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { invalidFields, type Violation } from "../../services/platform/rpc/errors.ts";
import type { HttpErrorResponse } from "../transcode/http-error.ts";
import { DONE, eventLine } from "../transcode/one-line.ts";
import type { HttpFormat } from "./format.ts";
import { createEmbeddingsReply, readEmbeddingsRequest } from "./openai-embeddings.ts";
import { createReply, modelJson } from "./openai-reply.ts";
import { isRefusedAlways, openAiPath, readCompletion } from "./openai-request.ts";
import { retryAdvice } from "./retry-advice.ts";

/** The JSON of OpenAI's API: chat completions, embeddings and models. */
export const openAiFormat: HttpFormat = {
  pathPrefix: "/v1/",
  read({ json }, { input }) {
    if (input.typeName === CreateEmbeddingsRequestSchema.typeName)
      return {
        message: readEmbeddingsRequest(json),
        isStream: false,
        reply: createEmbeddingsReply,
      };
    const { message, includeUsage } = readCompletion(json);
    const reply = (created: number) => createReply({ includeUsage, created });
    return { message, isStream: message.stream, reply };
  },
  whole: (message) => JSON.stringify(modelsJson(message)),
  error: openAiError,
  failure: (failed) => eventLine(openAiError(failed, true).body),
  closing: DONE,
};

/** @throws Error for a message that no method of this format returns */
function modelsJson(message: MessageShape<DescMessage>): object {
  if (isMessage(message, ListModelsResponseSchema))
    return { object: "list", data: message.models.map(modelJson) };
  if (isMessage(message, GetModelResponseSchema)) return modelJson(message.model as ListedModel);
  throw new Error(`${message.$typeName} has no form in this format`);
}

/** OpenAI's `code`, and the status if it differs from that of the reason. */
type Known = [code: string, status?: number];

/** Codes that differ from the names of their reasons. */
const CODES: ReadonlyMap<Reason, Known> = new Map<Reason, Known>([
  [Reason.UNAUTHENTICATED, ["invalid_api_key"]],
  [Reason.KEY_NOT_ALLOWED, ["permission_denied"]],
  [Reason.FORBIDDEN, ["permission_denied"]],
  [Reason.NOT_FOUND, ["model_not_found"]],
  [Reason.PROVIDER_NOT_CONFIGURED, ["model_not_found", 404]],
  [Reason.RATE_LIMITED, ["rate_limit_exceeded"]],
  [Reason.BUDGET_EXCEEDED, ["budget_exceeded"]],
]);

/** Codes for failures of a provider. `/ai/chat` has the same status for all of them. */
const PROVIDER_CODES: Readonly<Record<ProviderFailure, Known>> = {
  [ProviderFailure.UNSPECIFIED]: ["provider_error", 500],
  [ProviderFailure.PROMPT_TOO_LONG]: ["context_length_exceeded", 400],
  [ProviderFailure.REJECTED]: ["provider_rejected", 400],
  [ProviderFailure.BLOCKED]: ["content_filter", 400],
  [ProviderFailure.RATE_LIMITED]: ["provider_rate_limited", 429],
  [ProviderFailure.OVERLOADED]: ["provider_overloaded", 503],
  [ProviderFailure.TIMED_OUT]: ["provider_timed_out", 504],
  [ProviderFailure.OTHER]: ["provider_error", 500],
  [ProviderFailure.ACCOUNT_REFUSED]: ["provider_error", 500],
};

/** Codes of errors about the model. */
const OF_MODEL = ["model_not_found", "model_not_priced"];

/**
 * An error as OpenAI's clients read it.
 * @param isCall whether a method returned the error, as opposed to a path without a method
 */
export function openAiError(failed: HttpErrorResponse, isCall: boolean) {
  const { reason, body, providerFailure } = failed;
  const violations = (body.violations ?? []).map(({ field, ...problem }) => ({
    ...problem,
    field: openAiPath(field),
  }));
  const [first] = violations;
  const [code, status = body.statusCode] = codeOf(reason, providerFailure, isCall, first) ?? [
    body.code.toLowerCase(),
  ];
  const message = first ? invalidFields(violations).message : body.message;
  const param = first?.field ?? (OF_MODEL.includes(code) ? "model" : null);
  return {
    status,
    headers: retryAdvice(failed, status),
    body: { error: { message, type: typeOf(reason, status), param, code } },
  };
}

function codeOf(
  reason: Reason,
  providerFailure: ProviderFailure,
  isCall: boolean,
  violation: Violation | undefined,
): Known | undefined {
  if (violation) return [violationCode(violation)];
  if (reason === Reason.PROVIDER_ERROR)
    return PROVIDER_CODES[providerFailure] ?? PROVIDER_CODES[ProviderFailure.OTHER];
  if (reason === Reason.NOT_FOUND && !isCall) return ["unknown_url"];
  return CODES.get(reason);
}

function violationCode({ field, unsupported }: Violation): string {
  if (!unsupported) return "invalid_value";
  return isRefusedAlways(field) ? "unsupported_parameter" : "unsupported_value";
}

function typeOf(reason: Reason, status: number): string {
  if (reason === Reason.BUDGET_EXCEEDED) return "insufficient_quota";
  if (status === 429) return "rate_limit_exceeded";
  return status < 500 ? "invalid_request_error" : "server_error";
}
