import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { PREFIX } from "../../../scripts/simulators/script.ts";
import { conversationOf, eventsIn } from "../../support/ai/calls.ts";
import { startApp, type TestApp, testApp } from "../../support/app.ts";
import { postJson } from "../../support/http/client.ts";
import { forTest } from "../../support/suites.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const onServers = test.runIf(app.mode !== "embedded");
/** A stream must end within this time after its session, on whichever process the session ended. */
const SOON_MS = 1_500;
const question = () => conversationOf(`case: silent-midway ${crypto.randomUUID()}`);

/**
 * Starts a stream that sends some text and then stays silent.
 * @returns what it has received at its end
 */
async function listen(to: TestApp, token: string) {
  const { body } = await postJson(`${to.url}/ai/stream`, question(), token);
  let received = "";
  const rest = (async () => {
    for await (const part of (body as ReadableStream).pipeThrough(new TextDecoderStream()))
      received += part;
    return received;
  })();
  await until("the first text", () => received.includes("Grüße"));
  return { rest };
}

/**
 * Waits until a number of calls of a user have ended.
 * @returns their usage
 */
const endedCalls = (userId: string, count: number) =>
  until(`${count} rows of usage`, async () => {
    const ended =
      "select outcome, output_tokens from ai_usage where user_id = ? and outcome <> 'running'";
    const rows = await app.sql<{ outcome: string; output_tokens: number }>(ended, [userId]);
    return rows.length === count ? rows : undefined;
  });
const untilProviderIsFree = () =>
  until("no open reply at the provider", () =>
    app.providers[0]?.requests.every(({ closedAt }) => closedAt),
  );

test("POST /ai/stream: the end of the session ends the stream with an error event and [DONE], and usage is recorded", async () => {
  const { user, post, accessToken } = await app.signIn();
  const stream = await listen(app, accessToken);
  expect((await post("/auth/logout")).status).toBe(200);
  const endedAt = performance.now();
  expect(eventsIn(await stream.rest)).toEqual({ text: PREFIX, error: "The session has ended." });
  expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
  const [row] = await endedCalls(user.id, 1);
  expect(row).toMatchObject({ outcome: "cancelled" });
  expect(row?.output_tokens).toBeGreaterThan(0);
  await untilProviderIsFree();
});

test("StreamChat: the end of the session ends the stream with UNAUTHENTICATED", async () => {
  const account = await app.signIn();
  const read = async () => {
    for await (const _ of app.grpc(AIService).streamChat(question(), account))
      await account.post("/auth/logout");
  };
  await expect(read()).rejects.toMatchObject({ code: Code.Unauthenticated });
});

onServers(
  "POST /ai/stream: the end of a session at one replica ends its streams at the other, and no others",
  async () => {
    const { DATABASE_URL, DATA_DIR } = app.settings;
    const replica = await forTest(startApp({ env: { DATABASE_URL, DATA_DIR } }));
    const { user, accessToken } = await app.signIn();
    const other = await app.signIn(user);
    const [ends, goesOn] = await Promise.all([
      listen(replica, accessToken),
      listen(replica, other.accessToken),
    ]);
    await app.httpClient().post("/auth/logout", undefined, accessToken);
    const endedAt = performance.now();
    expect(eventsIn(await ends.rest).error).toBe("The session has ended.");
    expect(performance.now() - endedAt).toBeLessThan(SOON_MS);
    const later = new Promise((resolve) => setTimeout(resolve, SOON_MS, "still open"));
    expect(await Promise.race([goesOn.rest, later])).toBe("still open");
    await other.post("/auth/logout");
    await goesOn.rest;
  },
);

test("POST /ai/stream: a shutdown ends streams with an error event and [DONE], and records their usage", async () => {
  const isShared = app.mode !== "embedded";
  const { DATABASE_URL, DATA_DIR } = app.settings;
  const ending = await startApp({
    env: { SHUTDOWN_TIMEOUT: "200ms", ...(isShared && { DATABASE_URL, DATA_DIR }) },
  });
  const { user, accessToken } = await ending.signIn();
  const stream = await listen(ending, accessToken);
  const closed = ending.close();
  expect(eventsIn(await stream.rest)).toEqual({
    text: PREFIX,
    error: expect.stringContaining("shutting down"),
  });
  await closed;
  if (isShared) expect(await endedCalls(user.id, 1)).toMatchObject([{ outcome: "cancelled" }]);
});

test("AI: a client that disconnects is not a provider failure in log or usage, over REST and gRPC", async () => {
  const { user, accessToken, headers } = await app.signIn();
  const logged = app.logs.length;
  const leave = new AbortController();
  const response = await postJson(`${app.url}/ai/stream`, question(), accessToken, leave.signal);
  await response.body?.getReader().read();
  const pieces = app
    .grpc(AIService)
    .streamChat(question(), { headers, signal: leave.signal })
    [Symbol.asyncIterator]();
  await pieces.next();
  leave.abort();
  await pieces.next().catch(() => {});
  const outcomes = (await endedCalls(user.id, 2)).map(({ outcome }) => outcome);
  expect(outcomes).toEqual(["cancelled", "cancelled"]);
  await untilProviderIsFree();
  expect(app.logs.slice(logged).filter((line) => /"level":[4-6]0/.test(line))).toEqual([]);
});
