import { create, isMessage } from "@bufbuild/protobuf";
import {
  CountMessageTokensRequestSchema,
  CountMessageTokensResponseSchema,
  RelayMessagesRequestSchema,
} from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { ProviderFailure, Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { HttpErrorResponse } from "../transcode/http-error.ts";
import { oneLine } from "../transcode/one-line.ts";
import type { HttpFormat } from "./format.ts";
import { createRelayReply } from "./relay-reply.ts";
import { retryAdvice } from "./retry-advice.ts";

/** Anthropic's Messages API, whose requests and replies are passed on unchanged. */
export const anthropicFormat: HttpFormat = {
  pathPrefix: "/v1/messages/",
  keyHeader: "x-api-key",
  takesBytes: true,
  read({ json, body, headers }, { input }) {
    const version = headers["anthropic-version"];
    const betas = String(headers["anthropic-beta"] ?? "");
    const init = {
      body,
      version: typeof version === "string" ? version : "",
      betas: betas.split(",").flatMap((beta) => beta.trim() || []),
    };
    const schema =
      input.typeName === CountMessageTokensRequestSchema.typeName
        ? CountMessageTokensRequestSchema
        : RelayMessagesRequestSchema;
    return {
      message: create(schema, init),
      isStream: (json as { stream?: unknown }).stream === true,
      reply: createRelayReply,
    };
  },
  whole(message) {
    if (isMessage(message, CountMessageTokensResponseSchema)) return message.body;
    throw new Error(`${message.$typeName} has no form in this format`);
  },
  error: anthropicError,
  failure: (failed) => `event: error\ndata: ${oneLine(anthropicError(failed).body)}\n\n`,
  closing: "",
};

/** Anthropic's error types by status. */
const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/**
 * Statuses of provider failures, which differ from those of the reasons. 529 is Anthropic's status
 * for an overload.
 */
const PROVIDER_STATUSES: Readonly<Record<ProviderFailure, number>> = {
  [ProviderFailure.UNSPECIFIED]: 500,
  [ProviderFailure.PROMPT_TOO_LONG]: 400,
  [ProviderFailure.REJECTED]: 400,
  [ProviderFailure.BLOCKED]: 400,
  [ProviderFailure.RATE_LIMITED]: 429,
  [ProviderFailure.OVERLOADED]: 529,
  [ProviderFailure.TIMED_OUT]: 504,
  [ProviderFailure.OTHER]: 500,
  [ProviderFailure.ACCOUNT_REFUSED]: 500,
};

/** An error as Anthropic's clients read it. */
function anthropicError(failed: HttpErrorResponse) {
  const { reason, body, providerFailure } = failed;
  const status = statusOf(reason, providerFailure, body.statusCode);
  // Clients shorten the conversation if the message contains these words.
  const isTooLong = providerFailure === ProviderFailure.PROMPT_TOO_LONG;
  const message = isTooLong ? `prompt is too long: ${body.message}` : body.message;
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return {
    status,
    headers: retryAdvice(failed, status),
    body: { type: "error", error: { type, message } },
  };
}

function statusOf(reason: Reason, failure: ProviderFailure, status: number): number {
  if (reason === Reason.PROVIDER_ERROR) return PROVIDER_STATUSES[failure] ?? 500;
  return reason === Reason.PROVIDER_NOT_CONFIGURED ? 404 : status;
}
