import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { eachOf, type Messages } from "../../../gateway/transport/messages.ts";
import { AIService, type StreamChatResponse } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { flow } from "../../../services/flow.ts";
import { type CallResult, onComplete } from "../../../services/interceptors/on-complete.ts";
import { failWith, transportKinds } from "../../support/gateway.ts";
import { chat, errorOf, openTransports } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

type Chunks = AsyncGenerator<{ chunk: string }>;
/** How a handler may give its messages: to be asked for, or handed over. */
const kinds: [string, (chunks: Chunks) => AsyncIterable<{ chunk: string }>][] = [
  ["one by one", (chunks) => chunks],
  [
    "that hands them over",
    (chunks) =>
      flow(async (take) => {
        for await (const chunk of chunks) await take(chunk);
      }),
  ],
];
/** How they may be read. */
const readers: [string, (messages: Messages<StreamChatResponse>, take: (chunk: string) => void) => Promise<void>][] = [
  [
    "read one by one",
    async (messages, take) => {
      for await (const { chunk } of messages) take(chunk);
    },
  ],
  ["taken over", (messages, take) => eachOf(messages, ({ chunk }) => void take(chunk) as undefined)],
];

describe.each(transportKinds)("a streaming call %s", (way) => {
  const open = openTransports(way);

  describe.each(kinds)("of messages %s", (_kind, given) => {
    describe.each(readers)("%s", (_reader, read) => {
      test("streams them in order, then ends", async () => {
        const transport = await open((router) =>
          router.service(AIService, {
            streamChat({ provider }, context) {
              context.responseHeader.set("ratelimit-limit", "100");
              const chunks = async function* () {
                for (const chunk of [provider, "b", "c"]) yield { chunk };
              };
              return given(chunks());
            },
          }),
        );
        const answer = await chat(transport);
        const chunks: string[] = [];
        await read(answer.message, (chunk) => chunks.push(chunk));
        expect(chunks).toEqual(["p", "b", "c"]);
        expect(answer.header.get("ratelimit-limit")).toBe("100");
      });

      test("that fails in mid-stream delivers what came before", async () => {
        const transport = await open((router) =>
          router.service(AIService, {
            streamChat() {
              const chunks = async function* () {
                yield { chunk: "a" };
                throw failWith(Reason.PROVIDER_ERROR, Code.Internal, "It broke off.");
              };
              return given(chunks());
            },
          }),
        );
        const chunks: string[] = [];
        const answer = await chat(transport);
        const error = await errorOf(read(answer.message, (chunk) => chunks.push(chunk)));
        expect(chunks).toEqual(["a"]);
        expect(error.findDetails(FailureSchema)[0]?.reason).toBe(Reason.PROVIDER_ERROR);
      });

      test("whose stream is aborted is cancelled, tells nothing more, and the handler's finally runs", async () => {
        const events: string[] = [];
        const transport = await open((router) =>
          router.service(AIService, {
            streamChat(_request, { signal }) {
              signal.addEventListener("abort", () => events.push("aborted"));
              const chunks = async function* () {
                try {
                  for (let i = 0; ; i++) yield { chunk: String(i) };
                } finally {
                  events.push("finally");
                }
              };
              return given(chunks());
            },
          }),
        );
        const client = new AbortController();
        const answer = await chat(transport, client.signal);
        const told: string[] = [];
        const reading = read(answer.message, (chunk) => {
          told.push(chunk);
          if (chunk === "3") client.abort();
        });
        expect((await errorOf(reading)).code).toBe(Code.Canceled);
        await until("the finally", () => events.includes("aborted") && events.includes("finally"));
        expect(told).toEqual(["0", "1", "2", "3"]);
      });

      test("a failure of the reader ends its reading", async () => {
        const transport = await open((router) =>
          router.service(AIService, {
            streamChat() {
              const chunks = async function* () {
                for (const chunk of ["a", "b"]) yield { chunk };
              };
              return given(chunks());
            },
          }),
        );
        const answer = await chat(transport);
        const reading = read(answer.message, () => {
          throw new ConnectError("The reader broke.", Code.DataLoss);
        });
        expect((await errorOf(reading)).code).toBe(Code.DataLoss);
      });
    });
  });
});

describe.each(transportKinds)("a streaming call %s", (way) => {
  const open = openTransports(way);

  test("whose client leaves before it has begun ends for whoever watches it", async () => {
    const gate = Promise.withResolvers<void>();
    let held: AbortSignal | undefined;
    const hold: Interceptor = (next) => async (req) => {
      held = req.signal;
      await gate.promise;
      return next(req);
    };
    const endings: CallResult[] = [];
    const watch: Interceptor = (next) => (req) => onComplete(next, req, (ending) => void endings.push(ending));
    const streamChat = async function* (_request: unknown, { signal }: HandlerContext) {
      signal.throwIfAborted();
      yield { chunk: "a" };
    };
    const transport = await open((router) => router.service(AIService, { streamChat }), [watch, hold]);
    const client = new AbortController();
    const failed = errorOf(chat(transport, client.signal));
    await until("the call", () => held);
    client.abort();
    expect((await failed).code).toBe(Code.Canceled);
    await until("the services to hear of it", () => held?.aborted);
    gate.resolve();
    await until("its end", () => endings.length > 0);
    expect(endings).toEqual([{ error: expect.any(ConnectError) }]);
  });
});
