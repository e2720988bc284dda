import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { ContextValues, HandlerContext } from "@connectrpc/connect";
import { createContextValues } from "@connectrpc/connect";
import type { InProcessCall } from "./in-process-call.ts";

/** A request in process, as interceptors see it. */
export class InProcessRequest {
  readonly method: DescMethod;
  readonly service: DescService;
  readonly requestMethod = "POST";
  readonly url: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly stream: boolean;
  readonly message: unknown;
  readonly call: InProcessCall;

  constructor(
    method: DescMethod,
    call: InProcessCall,
    header: ConstructorParameters<typeof Headers>[0],
    contextValues: ContextValues | undefined,
    { stream, message }: { stream: boolean; message: unknown },
  ) {
    this.method = method;
    this.service = method.parent;
    this.url = `in-process:/${method.parent.typeName}/${method.name}`;
    this.header = header instanceof Headers ? header : new Headers(header);
    this.contextValues = contextValues ?? createContextValues();
    this.stream = stream;
    this.message = message;
    this.call = call;
  }

  get signal(): AbortSignal {
    return this.call.signal();
  }
}

/** What a handler is told beside the message of its request. */
export class InProcessContext implements HandlerContext {
  readonly responseHeader = new Headers();
  readonly responseTrailer = new Headers();
  readonly protocolName = "in-process";
  readonly requestMethod: string;
  readonly method: DescMethod;
  readonly service: DescService;
  readonly url: string;
  readonly requestHeader: Headers;
  readonly values: ContextValues;
  private readonly call: InProcessCall;

  constructor(request: InProcessRequest) {
    this.requestMethod = request.requestMethod;
    this.method = request.method;
    this.service = request.service;
    this.url = request.url;
    this.requestHeader = request.header;
    this.values = request.contextValues;
    this.call = request.call;
  }

  get signal(): AbortSignal {
    return this.call.signal();
  }

  timeoutMs(): number | undefined {
    const { deadline } = this.call;
    return deadline === undefined ? undefined : deadline - Date.now();
  }
}
