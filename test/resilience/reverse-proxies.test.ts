import { request } from "node:https";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, describe, expect, test } from "vitest";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { PREFIX } from "../../scripts/simulators/script.ts";
import { PASSWORD } from "../support/accounts.ts";
import { conversationOf, eventsIn, startSuiteProvider } from "../support/ai/calls.ts";
import { createDatabase } from "../support/database/databases.ts";
import { CA, startReverseProxy, type Upstreams } from "../support/network/reverse-proxy.ts";
import { freePort } from "../support/network/sockets.ts";
import { type Process, sharedVariables, startProcess } from "../support/processes/processes.ts";
import { describeIf, forSuite, isMissing } from "../support/suites.ts";
import { tally, times } from "../support/tally.ts";
import { until } from "../support/until.ts";

const GRACE_MS = 1_000;
const CLIENT = "127.0.1.7";
const QUESTION = conversationOf("case: silent-midway");

type Answer = { status: number; retryAfter: string | undefined; text: string };

describeIf(process.env.TEST_SERVERS, "Replicas behind", async () => {
  const simulator = await startSuiteProvider();
  const ports: Upstreams = {
    rest: [await freePort(), await freePort()],
    grpc: [await freePort(), await freePort()],
  };
  const env = {
    DATABASE_URL: await createDatabase(),
    ...sharedVariables(),
    PUBLIC_URL: "https://api.example.com",
    SHUTDOWN_TIMEOUT: `${GRACE_MS}ms`,
    ...simulator.env,
  };
  const replicas: Process[] = [];
  const startReplica = async (i: 0 | 1) => {
    replicas[i] = await startProcess({ ...env, PORT: ports.rest[i], GRPC_PORT: ports.grpc[i] });
  };
  await Promise.all([startReplica(0), startReplica(1)]);
  afterAll(() => Promise.all(replicas.map((replica) => replica.end("SIGKILL"))));

  describe.each(["nginx", "haproxy", "caddy"] as const)("%s", async (kind) => {
    if (isMissing(kind)) return test.todo("is tested where the program is installed");
    const proxy = await forSuite(startReverseProxy(kind, ports));
    let token = "";
    const credentials = { email: `${kind}@example.com`, password: PASSWORD };
    await send("POST", "/auth/register", { ...credentials, name: "Ann", acceptTerms: true });
    token = JSON.parse((await send("POST", "/auth/login", credentials)).text).accessToken;

    /**
     * Sends a request from its own address.
     * @param onText gets the text so far
     */
    function send(
      method: string,
      path: string,
      body?: unknown,
      onText = (_: string) => {},
      signal?: AbortSignal,
    ) {
      const headers = {
        "content-type": "application/json",
        "x-forwarded-for": "8.8.8.8",
        ...(token && { authorization: `Bearer ${token}` }),
      };
      return new Promise<Answer>((resolve, reject) => {
        const options = {
          method,
          headers,
          signal,
          ca: CA,
          localAddress: CLIENT,
          family: 4,
          agent: false,
        };
        const sending = request(proxy.url + path, options, (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (part: string) => {
            text += part;
            onText(text);
          });
          const { statusCode: status = 0, headers: received } = response;
          response
            .on("end", () => resolve({ status, retryAfter: received["retry-after"], text }))
            .on("error", reject);
        });
        sending.on("error", reject).end(body && JSON.stringify(body));
      });
    }
    const grpc = () =>
      createGrpcTransport({
        baseUrl: proxy.grpcUrl,
        nodeOptions: { ca: CA, localAddress: CLIENT, family: 4 } as object,
      });
    const bearer = () => ({
      headers: { authorization: `Bearer ${token}`, "x-forwarded-for": "8.8.8.8" },
    });

    test("forwards the client's address, and no address sent by the client", async () => {
      const [session] = JSON.parse((await send("GET", "/user/sessions")).text);
      expect(session.ip).toBe(CLIENT);
      const { sessions } = await createClient(UserService, grpc()).listSessions({}, bearer());
      expect(sessions.map(({ ip }) => ip)).toEqual([CLIENT]);
    });

    test("delivers streams in pieces over REST and gRPC, and ends the provider's streams once the client's end", async () => {
      const before = simulator.requests.length;
      const [reader, browser] = [new AbortController(), new AbortController()];
      const call = { ...bearer(), signal: reader.signal };
      for await (const { chunk } of createClient(AIService, grpc()).streamChat(QUESTION, call)) {
        expect(PREFIX.startsWith(chunk)).toBe(true); // before the provider ends the stream
        break;
      }
      reader.abort();
      let seen = "";
      const rest = send("POST", "/ai/stream", QUESTION, (text) => (seen = text), browser.signal);
      await until("the first pieces", () => seen.includes("data: "));
      await until("both at the provider", () => simulator.requests.length === before + 2);
      await until(
        "the end of the gRPC stream",
        () => simulator.requests[before]?.closedAt !== undefined,
      );
      expect(simulator.requests[before + 1]?.closedAt).toBeUndefined();
      browser.abort();
      await expect(rest).rejects.toThrow();
      await until(
        "the end of the REST stream",
        () => simulator.requests[before + 1]?.closedAt !== undefined,
        10_000,
      );
    });

    test("forwards the largest body of a route", async () => {
      const content = "a".repeat(8_300_000); // of 8,388,608 bytes, and more characters than a model may get
      const question = { model: "model-a-1", messages: [{ role: "user", content }] };
      const { status, text } = await send("POST", "/v1/chat/completions", question);
      expect([status, JSON.parse(text).error.param]).toEqual([400, "messages"]);
    });

    test("rejects a body above its own limit in the format of the API", async () => {
      const { status, text } = await send("POST", "/ai/chat", {
        ...QUESTION,
        padding: "a".repeat(10_000_000),
      });
      expect([status, JSON.parse(text).code]).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    });

    test("rejects unreadable requests, long paths and TRACE in the format of the API", async () => {
      const codeOf = async (method: string, path: string) => {
        const { status, text } = await send(method, path);
        return [status, JSON.parse(text).code];
      };
      expect(await codeOf("GET", `/${"a".repeat(20_000)}`)).toEqual([431, "MALFORMED_REQUEST"]);
      expect(await codeOf("TRACE", "/auth/login")).toEqual([405, "METHOD_NOT_ALLOWED"]);
      if (kind !== "caddy")
        expect(await codeOf("GET", "/\u00e9%zz")).toEqual([400, "MALFORMED_REQUEST"]);
    });

    test("removes a draining replica: every request succeeds in the end, no stream ends before the grace period", async () => {
      const firsts = times(4, () => {
        const first = Promise.withResolvers<void>();
        const whole = send("POST", "/ai/stream", QUESTION, () => first.resolve());
        return {
          first: first.promise,
          whole: whole.then((answer) => ({ ...answer, at: performance.now() })),
        };
      });
      await Promise.all(firsts.map(({ first }) => first));
      const drainedAt = performance.now();
      const ended = replicas[1]?.end("SIGTERM");
      const asks = times(20, (i) =>
        retrying(() =>
          send(i % 2 ? "GET" : "PUT", "/user/profile", i % 2 ? undefined : { name: "Ann" }),
        ),
      );
      expect(tally(await Promise.all(asks), ({ status }) => status)).toEqual({ 200: 20 });
      expect(await ended).toBe(0);
      await startReplica(1);
      const later = await Promise.all(times(4, () => retrying(() => send("GET", "/user/profile"))));
      expect(tally(later, ({ status }) => status)).toEqual({ 200: 4 });
      const second = replicas[0]?.end("SIGTERM");
      for (const { whole } of firsts) {
        const { text, at } = await whole;
        expect(eventsIn(text)).toEqual({ text: PREFIX, error: expect.stringMatching(/try again/) });
        expect(at - drainedAt).toBeGreaterThan(GRACE_MS - 50);
      }
      expect(await second).toBe(0);
      await startReplica(0);
      await retrying(() => send("GET", "/user/profile"));
      // Checks of the gRPC ports have passed in the meantime.
      const { sessions } = await createClient(UserService, grpc()).listSessions({}, bearer());
      expect(sessions).toHaveLength(1);
    });
  });
});

/** Repeats a request that gets 503 after its Retry-After. */
async function retrying(ask: () => Promise<Answer>, tries = 4): Promise<Answer> {
  const answer = await ask();
  if (answer.status !== 503 || tries === 1) return answer;
  expect(answer.retryAfter).toBe("1");
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  return retrying(ask, tries - 1);
}
