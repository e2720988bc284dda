import { create } from "@bufbuild/protobuf";
import { RelayResponsesRequestSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { oneLine } from "../transcode/one-line.ts";
import type { HttpFormat } from "./format.ts";
import { openAiError } from "./openai.ts";
import { createRelayReply } from "./relay-reply.ts";

/** OpenAI's Responses API, whose requests and replies are passed on unchanged. */
export const responsesFormat: HttpFormat = {
  pathPrefix: "/v1/responses/",
  takesBytes: true,
  read: ({ json, body }) => ({
    message: create(RelayResponsesRequestSchema, { body }),
    isStream: (json as { stream?: unknown }).stream === true,
    reply: createRelayReply,
  }),
  whole(message) {
    throw new Error(`${message.$typeName} has no form in this format`);
  },
  error: openAiError,
  /**
   * Clients of the Responses API recognize errors by `type`, other clients by the member `error`.
   */
  failure(failed) {
    const { error } = openAiError(failed, true).body;
    const { code, message, param } = error;
    return `event: error\ndata: ${oneLine({ type: "error", code, message, param, error })}\n\n`;
  },
  closing: "",
};
