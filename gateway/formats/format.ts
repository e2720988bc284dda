import type { IncomingHttpHeaders } from "node:http";
import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import type { HttpErrorResponse } from "../transcode/http-error.ts";

/** A request in a format: its body as JSON and as received, and its headers. */
export type FormattedRequest = { json: object; body: Uint8Array; headers: IncomingHttpHeaders };

/** A request that has been read: its message, and how to write the reply. */
export type FormattedCall = {
  message: Message;
  /** Whether the reply should be a stream. */
  isStream: boolean;
  /**
   * Creates the writer of the reply.
   * @param created Unix time of the reply, in seconds
   */
  reply(created: number): FormattedReply;
};

/**
 * The JSON of another vendor's API, which methods accept and return instead of their own
 * (`http_format` in their policies). A format replaces steps of the transcoder, which otherwise
 * knows nothing about that API.
 */
export type HttpFormat = {
  /** Prefix of all paths of the API, including those without a method. */
  pathPrefix: string;
  /** A header that may carry the API key if there is no `Authorization`. */
  keyHeader?: string;
  /**
   * Whether bodies are passed on as bytes, so that they may contain text that messages cannot
   * contain.
   */
  takesBytes?: boolean;
  /**
   * Reads a request.
   * @throws ServiceError VALIDATION_FAILED
   */
  read(request: FormattedRequest, method: DescMethodInput): FormattedCall;
  /** Writes the response of a unary method as JSON text. */
  whole(message: MessageShape<DescMessage>): string;
  /**
   * Writes an error.
   * @param isCall whether a method returned the error, as opposed to a path without a method
   */
  error(
    failed: HttpErrorResponse,
    isCall: boolean,
  ): { status: number; headers: Record<string, string>; body: object };
  /** Writes the server-sent event of a failure. */
  failure(failed: HttpErrorResponse): string;
  /** The end of every stream. */
  closing: string;
};

/** The type of the requests of a method. */
type DescMethodInput = { input: DescMessage };

/** Writes one reply, streamed or complete. */
export type FormattedReply = {
  /** Headers of the response that are known so far. */
  headers(): Record<string, string>;
  /** Whether the reply is complete. */
  isFinished(): boolean;
  /** Writes the server-sent events for one event of the reply; empty if there are none. */
  event(event: Message): string;
  /** Creates the collector of a reply that is not streamed. */
  whole(): { add(event: Message): void; text(): string };
};
