import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { CompleteEvent, CompleteRequest } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { HttpErrorResponse } from "../transcode/http-error.ts";

/**
 * The JSON of a foreign API, which methods take and send in place of their own (`http_format` in
 * their policies). The transcoder asks it for what it would do itself otherwise, and knows nothing
 * else of the API.
 */
export type HttpFormat = {
  /** Paths that begin with this belong to the API, whether or not they have a method. */
  pathPrefix: string;
  /**
   * Reads a request body.
   * @throws ServiceError VALIDATION_FAILED
   */
  read(json: object): { message: CompleteRequest; includeUsage: boolean };
  /**
   * Creates the writer of one reply.
   * @param options.created Unix time of the reply, in seconds
   */
  reply(options: { includeUsage: boolean; created: number }): FormattedReply;
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
};

/** Writes one reply, as a stream or as a whole. */
export type FormattedReply = {
  /** Headers of the response, as far as they are known. */
  headers(): Record<string, string>;
  /** Whether the reply is complete. */
  isFinished(): boolean;
  /** The server-sent events of one event of the reply; may be none. */
  event(event: CompleteEvent): string;
  /** Creates the collector of a reply that is not streamed. */
  whole(): { add(event: CompleteEvent): void; json(): object };
};
