import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, createContextValues, type HandlerContext } from "@connectrpc/connect";

const ENDED = new ConnectError("the call has ended", Code.Canceled);

/** The options of a call: the arguments of a transport besides the message. */
type CallOptions = {
  signal: AbortSignal | undefined;
  timeoutMs: number | undefined;
  header: ConstructorParameters<typeof Headers>[0];
  contextValues: ContextValues | undefined;
};

/**
 * One call in process, from its start to its end, an abort by its client, or its deadline. It is the request that
 * interceptors see, and the context that the handler receives.
 */
export class InProcessCall implements HandlerContext {
  readonly call = this; // interceptors may copy the request
  readonly stream: boolean;
  readonly message: unknown;
  readonly method: DescMethod;
  readonly service: DescService;
  readonly url: string;
  readonly requestMethod = "POST";
  readonly protocolName = "in-process";
  readonly header: Headers;
  readonly requestHeader: Headers;
  readonly responseHeader = new Headers();
  readonly responseTrailer = new Headers();
  readonly contextValues: ContextValues;
  readonly values: ContextValues;
  readonly #client: AbortSignal | undefined;
  readonly #deadline: number | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #controller: AbortController | undefined;
  #endedBy: ConnectError | undefined;
  #rejectPending: ((error: ConnectError) => void) | undefined;

  constructor(method: DescMethod, message: unknown, { signal, timeoutMs, header, contextValues }: CallOptions) {
    this.stream = method.methodKind !== "unary";
    this.message = message;
    this.method = method;
    this.service = method.parent;
    this.url = `in-process:/${method.parent.typeName}/${method.name}`;
    this.requestHeader = this.header = header instanceof Headers ? header : new Headers(header);
    this.values = this.contextValues = contextValues ?? createContextValues();
    this.#client = signal;
    if (timeoutMs !== undefined) {
      this.#deadline = Date.now() + timeoutMs;
      this.#timer = setTimeout(this.#onDeadline, timeoutMs);
    }
    if (signal?.aborted) this.#onClientAbort();
    else signal?.addEventListener("abort", this.#onClientAbort);
  }

  /** Fires when the call is over, however it ended. Created on first access, because most calls never use it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#endedBy) this.#controller.abort(this.#endedBy);
    }
    return this.#controller.signal;
  }

  timeoutMs(): number | undefined {
    return this.#deadline === undefined ? undefined : this.#deadline - Date.now();
  }

  /**
   * Settles with the work, or rejects at once when the call is aborted. A failure ends the call. Masks unknown errors, as
   * on the wire.
   * @param complete maps the result
   */
  run<T, R>(work: () => Promise<T>, complete: (result: T) => R): Promise<R> {
    if (this.#endedBy) return Promise.reject(this.#endedBy);
    return new Promise((resolve, reject) => {
      this.#rejectPending = reject;
      work().then(
        (result) => resolve(complete(result)),
        (thrown) => {
          this.end();
          const isKnown = thrown instanceof ConnectError;
          reject(isKnown ? thrown : new ConnectError("internal error", Code.Internal, undefined, undefined, thrown));
        },
      );
    });
  }

  /** Ends the call with its last result. */
  end(reason = ENDED): void {
    if (this.#endedBy) return;
    this.#endedBy = reason;
    clearTimeout(this.#timer);
    this.#client?.removeEventListener("abort", this.#onClientAbort);
    this.#controller?.abort(reason);
  }

  #abort(error: ConnectError): void {
    this.#rejectPending?.(error);
    this.end(error);
  }

  readonly #onClientAbort = () => this.#abort(ConnectError.from(this.#client?.reason, Code.Canceled));
  readonly #onDeadline = () => this.#abort(new ConnectError("the operation timed out", Code.DeadlineExceeded));
}
