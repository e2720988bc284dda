import type { HandlerContext } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { failWith, type Routes, transportKinds } from "../../support/gateway.ts";
import { chat, errorOf, openTransports } from "../../support/stub-transports.ts";
import { until } from "../../support/until.ts";

const { login } = AuthService.method;

describe.each(transportKinds)("Unary call %s", (way) => {
  const open = openTransports(way);

  test("transports message, headers and trailers in both directions", async () => {
    const transport = await open((router) =>
      router.service(AuthService, {
        login: ({ email }, context) => {
          context.responseHeader.set("ratelimit-limit", "5");
          context.responseTrailer.set("x-last", "word");
          return { accessToken: `${email} ${context.requestHeader.get("x-request-id")}` };
        },
      }),
    );
    const answer = await transport.unary(login, undefined, undefined, { "x-request-id": "7" }, { email: "a@b.cd" });
    expect(answer.message).toMatchObject({ accessToken: "a@b.cd 7", requiresMfa: false });
    expect(answer.message.$typeName).toBe("gatehouse.account.v1.LoginResponse");
    expect(answer.header.get("ratelimit-limit")).toBe("5");
    expect(answer.trailer.get("x-last")).toBe("word");
  });

  test("fails with code, detail and metadata", async () => {
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, context) => {
          context.responseHeader.set("ratelimit-remaining", "0");
          throw failWith(
            Reason.ACCOUNT_LOCKED,
            Code.FailedPrecondition,
            "Locked.",
            { retryAfterSeconds: 9 },
            { a: "b" },
          );
        },
      }),
    );
    const error = await errorOf(transport.unary(login, undefined, undefined, undefined, {}));
    expect(error).toBeInstanceOf(ConnectError);
    expect(error).toMatchObject({ code: Code.FailedPrecondition, rawMessage: "Locked." });
    expect(error.findDetails(FailureSchema)[0]).toMatchObject({ reason: Reason.ACCOUNT_LOCKED, retryAfterSeconds: 9 });
    expect(error.metadata.get("a")).toBe("b");
    expect(error.metadata.get("ratelimit-remaining")).toBe("0");
  });

  test("masks an unexpected error of handlers and streams", async () => {
    const transport = await open((router) =>
      router
        .service(AuthService, {
          login: () => {
            throw new Error("password=hunter2");
          },
          refresh: () => Promise.reject(new Error("password=hunter2")),
        })
        .service(AIService, {
          // biome-ignore lint/correctness/useYield: it fails before
          async *streamChat() {
            throw new Error("password=hunter2");
          },
        }),
    );
    const { refresh } = AuthService.method;
    const drain = async () => {
      for await (const _ of (await chat(transport)).message);
    };
    for (const call of [
      transport.unary(login, undefined, undefined, undefined, {}),
      transport.unary(refresh, undefined, undefined, undefined, {}),
      drain(),
    ]) {
      expect(await errorOf(call)).toMatchObject({ code: Code.Internal, rawMessage: "internal error" });
    }
  });

  test("is unimplemented for a method without a handler", async () => {
    const transport = await open((router) => router.service(AuthService, {}));
    const error = await errorOf(transport.unary(login, undefined, undefined, undefined, {}));
    expect(error.code).toBe(Code.Unimplemented);
    expect((await errorOf(chat(transport))).code).toBe(Code.Unimplemented);
  });

  test("passes the interceptors from the outermost on; they see headers and errors", async () => {
    const seen: string[] = [];
    const routes: Routes = (router) =>
      router.service(AuthService, {
        login: (_r, context) => ({ accessToken: context.requestHeader.get("x-added") ?? "" }),
      });
    const named = (name: string) => (next: never) => async (request: { header: Headers; method: { name: string } }) => {
      seen.push(`${name} ${request.method.name}`);
      request.header.set("x-added", name);
      const answer = await (next as (r: unknown) => Promise<{ header: Headers }>)(request);
      answer.header.append("x-by", name);
      return answer;
    };
    const transport = await open(routes, [named("outer"), named("inner")] as never);
    const answer = await transport.unary(login, undefined, undefined, undefined, {});
    expect(seen).toEqual(["outer Login", "inner Login"]);
    expect(answer.message).toMatchObject({ accessToken: "inner" });
    expect(answer.header.get("x-by")).toBe("inner, outer");
  });

  test("is cancelled at once by an abort, and the handler's signal fires", async () => {
    let context: HandlerContext | undefined;
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, given) => {
          context = given;
          return new Promise(() => {}); // never answers
        },
      }),
    );
    const client = new AbortController();
    const call = errorOf(transport.unary(login, client.signal, undefined, undefined, {}));
    await until("the handler", () => context);
    client.abort();
    expect((await call).code).toBe(Code.Canceled);
    await until("the abort", () => context?.signal.aborted);
    const late = errorOf(transport.unary(login, AbortSignal.abort(), undefined, undefined, {}));
    expect((await late).code).toBe(Code.Canceled);
  });

  test("ends at its deadline, which the handler sees", async () => {
    let left: number | undefined;
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, context) => {
          left = context.timeoutMs();
          return new Promise(() => {});
        },
      }),
    );
    const error = await errorOf(transport.unary(login, undefined, 60, undefined, {}));
    expect(error.code).toBe(Code.DeadlineExceeded);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(60);
  });

  test("fires the handler's signal after its end, so that unfinished work stops", async () => {
    let context: HandlerContext | undefined;
    const transport = await open((router) =>
      router.service(AuthService, {
        login: (_request, given) => {
          context = given;
          return {};
        },
      }),
    );
    await transport.unary(login, undefined, undefined, undefined, {});
    await until("the abort", () => context?.signal.aborted);
  });
});
