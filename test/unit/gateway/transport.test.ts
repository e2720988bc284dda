import type { HandlerContext } from "@connectrpc/connect";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { type Routes, transportKinds } from "../../support/gateway.ts";
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
