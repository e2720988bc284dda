import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, createContextValues, type HandlerContext } from "@connectrpc/connect";

const ENDED = new ConnectError("the call has ended", Code.Canceled);

/**
 * One call in process, until it ends, its client aborts it, or its deadline passes. It is also the context that its handler
 * receives.
 */
export class InProcessCall implements HandlerContext {
  readonly responseHeader = new Headers();
  readonly responseTrailer = new Headers();
  readonly protocolName = "in-process";
  readonly requestMethod = "POST";
  readonly method: DescMethod;
  readonly service: DescService;
  readonly url: string;
  readonly requestHeader: Headers;
  readonly values: ContextValues;
  readonly #client: AbortSignal | undefined;
  readonly #deadline: number | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #controller: AbortController | undefined;
  #endedBy: ConnectError | undefined;
  #rejectPending: ((error: ConnectError) => void) | undefined;

  constructor(
    method: DescMethod,
    client: AbortSignal | undefined,
    timeoutMs: number | undefined,
    header: ConstructorParameters<typeof Headers>[0],
    values: ContextValues = createContextValues(),
  ) {
    this.method = method;
    this.service = method.parent;
    this.url = `in-process:/${method.parent.typeName}/${method.name}`;
    this.requestHeader = header instanceof Headers ? header : new Headers(header);
    this.values = values;
    this.#client = client;
    if (timeoutMs !== undefined) {
      this.#deadline = Date.now() + timeoutMs;
      this.#timer = setTimeout(this.#onDeadline, timeoutMs);
    }
    if (client?.aborted) this.#onClientAbort();
    else client?.addEventListener("abort", this.#onClientAbort);
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
   * Settles as the work does, or rejects the moment the call is aborted. A failure ends the call. Masks unknown errors, as
   * on the wire.
   * @param complete maps the result
   */
  run<T, R>(work: () => Promise<T>, complete: (result: T) => R): Promise<R> {
    if (this.#endedBy) return Promise.reject(this.#endedBy);
    return new Promise<R>((resolve, reject) => {
      this.#rejectPending = reject;
      const fail = (thrown: unknown) => {
        this.end();
        reject(masked(thrown));
      };
      try {
        work().then((result) => resolve(complete(result)), fail);
      } catch (thrown) {
        fail(thrown); // an interceptor may throw before it returns a promise
      }
    });
  }

  /** Ends the call, as its last result does. */
  end(): void {
    this.#end(ENDED);
  }

  #abort(error: ConnectError): void {
    this.#rejectPending?.(error);
    this.#end(error);
  }

  #end(reason: ConnectError): void {
    if (this.#endedBy) return;
    this.#endedBy = reason;
    clearTimeout(this.#timer);
    this.#client?.removeEventListener("abort", this.#onClientAbort);
    this.#controller?.abort(reason);
  }

  readonly #onClientAbort = () => this.#abort(ConnectError.from(this.#client?.reason, Code.Canceled));
  readonly #onDeadline = () => this.#abort(new ConnectError("the operation timed out", Code.DeadlineExceeded));
}

const masked = (thrown: unknown): ConnectError =>
  thrown instanceof ConnectError
    ? thrown
    : new ConnectError("internal error", Code.Internal, undefined, undefined, thrown);
