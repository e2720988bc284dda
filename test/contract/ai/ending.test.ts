import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { PREFIX } from "../../../scripts/simulators/script.ts";
import { startApp, type TestApp, testApp } from "../../support/app.ts";
import { eventsIn } from "../../support/sse-events.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
/** A stream must have ended that soon after its session, on whichever process that was ended. */
const SOON_MS = 1_500;
const asked = () => ({
  provider: "provider-a",
  messages: [{ role: "user", content: `case: silent-midway ${crypto.randomUUID()}` }],
});

/** Starts a stream that says something and then waits for ever. */
async function listen(to: TestApp, token: string) {
  const response = await fetch(`${to.url}/ai/stream`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(asked()),
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const read = async (isEnough: (text: string) => boolean) => {
    while (!isEnough(text)) {
      const step = await reader?.read();
      if (!step || step.done) break;
      text += step.value;
    }
    return text;
  };
  await read((so) => so.includes("Grüße"));
  return { rest: () => read(() => false) };
}

const outcomesOf = (userId: string) =>
  app.sql<{ outcome: string; output_tokens: number }>(
    "select outcome, output_tokens from ai_usage where user_id = ? and outcome <> 'running'",
    [userId],
  );

test("POST /ai/stream: a session that ends ends the stream with an error event and [DONE], and usage is recorded", async () => {
  const { user, browser, accessToken } = await app.signIn();
  const stream = await listen(app, accessToken);
  expect((await browser.post("/auth/logout", undefined, accessToken)).status).toBe(200);
  const endedAt = performance.now();
  expect(eventsIn(await stream.rest())).toEqual({ text: PREFIX, error: "The session has ended." });
  expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
  const [row] = await until("the settled row", async () => {
    const rows = await outcomesOf(user.id);
    return rows.length > 0 ? rows : undefined;
  });
  expect(row).toMatchObject({ outcome: "cancelled" });
  expect(row?.output_tokens).toBeGreaterThan(0);
  const [simulator] = app.providers;
  await until("no open reply at the provider", () =>
    simulator?.requests.every(({ closedAt }) => closedAt !== undefined) ? true : undefined,
  );
});

test("StreamChat: a session that ends ends the stream as UNAUTHENTICATED", async () => {
  const { browser, accessToken } = await app.signIn();
  const headers = { authorization: `Bearer ${accessToken}` };
  const read = async () => {
    for await (const _ of app.grpc(AIService).streamChat(asked(), { headers })) {
      await browser.post("/auth/logout", undefined, accessToken);
    }
  };
  const error = ConnectError.from(await read().catch((thrown) => thrown));
  expect(error.code).toBe(Code.Unauthenticated);
});

test.runIf(app.mode !== "embedded")(
  "POST /ai/stream: a session that ends on one replica ends its streams on the other, and no other streams",
  async () => {
    const { DATABASE_URL, DATA_DIR } = app.settings;
    const replica = await startApp({ env: { DATABASE_URL, DATA_DIR } });
    const { user, accessToken } = await app.signIn();
    const other = await app.signIn(user);
    const [ends, goesOn] = await Promise.all([listen(replica, accessToken), listen(replica, other.accessToken)]);
    await app.httpClient().post("/auth/logout", undefined, accessToken);
    const endedAt = performance.now();
    expect(eventsIn(await ends.rest()).error).toBe("The session has ended.");
    expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
    const later = new Promise((resolve) => setTimeout(resolve, SOON_MS, "still open"));
    const rest = goesOn.rest();
    expect(await Promise.race([rest, later])).toBe("still open");
    await app.httpClient().post("/auth/logout", undefined, other.accessToken);
    await rest;
    await replica.close();
  },
);

test("POST /ai/stream: a shutdown ends streams with an error event and [DONE], and settles their usage", async () => {
  const isShared = app.mode !== "embedded";
  const { DATABASE_URL, DATA_DIR } = app.settings;
  const ending = await startApp({ env: { SHUTDOWN_TIMEOUT: "200ms", ...(isShared && { DATABASE_URL, DATA_DIR }) } });
  const { user, accessToken } = await ending.signIn();
  const stream = await listen(ending, accessToken);
  const closed = ending.close();
  expect(eventsIn(await stream.rest())).toEqual({
    text: PREFIX,
    error: expect.stringContaining("shutting down"),
  });
  await closed;
  if (isShared) expect(await outcomesOf(user.id)).toMatchObject([{ outcome: "cancelled" }]);
});

test("AI: a client that disconnects is no provider failure in log or usage, over REST and gRPC", async () => {
  const { user, accessToken } = await app.signIn();
  const logged = app.logs.length;
  const leave = new AbortController();
  const headers = { authorization: `Bearer ${accessToken}` };
  const response = await fetch(`${app.url}/ai/stream`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(asked()),
    signal: leave.signal,
  });
  await response.body?.getReader().read();
  const pieces = app.grpc(AIService).streamChat(asked(), { headers, signal: leave.signal })[Symbol.asyncIterator]();
  await pieces.next();
  leave.abort();
  await pieces.next().catch(() => {});
  const outcomes = await until("both settled rows", async () => {
    const rows = await outcomesOf(user.id);
    return rows.length === 2 ? rows.map(({ outcome }) => outcome) : undefined;
  });
  expect(outcomes).toEqual(["cancelled", "cancelled"]);
  const [simulator] = app.providers;
  await until("no open reply at the provider", () =>
    simulator?.requests.every(({ closedAt }) => closedAt !== undefined) ? true : undefined,
  );
  expect(app.logs.slice(logged).filter((line) => /"level":[4-6]0/.test(line))).toEqual([]);
});
