import type { IncomingHttpHeaders } from "node:http";
import type { DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import type { HttpErrorResponse } from "../transcode/http-error.ts";

/** A request in a format: its body as JSON and as received, and its headers. */
export type FormattedRequest = { json: object; body: Uint8Array; headers: IncomingHttpHeaders };

/** What a request asks for. */
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
 * The JSON of another vendor's API, which methods accept and return instead of their own (`http_format` in
 * their policies). It replaces steps of the transcoder, which knows nothing
 * else of the API.
 */
export type HttpFormat = {
  /** Paths that begin with this belong to the API, whether or not they have a method. */
  pathPrefix: string;
  /** A header that may carry the API key if there is no `Authorization`. */
  keyHeader?: string;
  /** Whether bodies are passed on as bytes, so that they may contain text that messages can't. */
  takesBytes?: boolean;
  /**
   * Reads a request.
   * @throws ServiceError VALIDATION_FAILED
   */
  read(request: FormattedRequest, method: DescMethodInput): FormattedCall;
  /** The response of a unary method, as JSON text. */
  whole(message: MessageShape<DescMessage>): string;
  /**
   * An error.
   * @param isCall whether it is that of a method, and not of a path without one
   */
  error(
    failed: HttpErrorResponse,
    isCall: boolean,
  ): { status: number; headers: Record<string, string>; body: object };
  /** The server-sent event of a failure. */
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
  /** The server-sent events of one event of the reply; may be none. */
  event(event: Message): string;
  /** Creates the collector of a reply that is not streamed. */
  whole(): { add(event: Message): void; text(): string };
};
