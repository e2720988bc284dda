import { setTimeout as wait } from "node:timers/promises";
import type { SignedIn } from "../support/accounts.ts";
import { conversationOf, eventsIn } from "../support/ai/calls.ts";
import { type HttpResponse, postJson } from "../support/http/client.ts";
import type { Deployment } from "../support/processes/replicas.ts";
import { times } from "../support/tally.ts";

/** Attempts of a request that gets 503. Together they last longer than a replica drains. */
const TRIES = 8;
/**
 * Pause of a user after each round of requests, in ms: the load must cover every moment, not
 * saturate the cores.
 */
const PAUSE_MS = 100;

/**
 * Lets users sign in, refresh, read, chat and stream in rounds.
 * @param pause seconds before a repetition if a response has no Retry-After, as in the first
 * releases
 */
export function startLoad(all: Deployment, users: SignedIn[], pause?: string) {
  const failures: string[] = [];
  const counts = { requests: 0, repeated: 0 };
  let isOver = false;
  /** Sends a request, and repeats it after 503 when the response says so. */
  async function send(what: string, ask: () => Promise<HttpResponse>): Promise<HttpResponse> {
    for (let tries = 1; ; tries++) {
      const answer = await ask().catch(
        (error) => ({ status: 0, text: String(error.cause ?? error) }) as HttpResponse,
      );
      counts.requests++;
      if (answer.status === 200) return answer;
      const retryAfter = answer.headers?.get("retry-after") ?? pause;
      if (answer.status !== 503 || !retryAfter || tries === TRIES) {
        failures.push(`${what}: ${answer.status} ${answer.text}`);
        return answer;
      }
      counts.repeated++;
      await wait(Number(retryAfter) * 1_000);
    }
  }
  async function use({ user, ...session }: SignedIn): Promise<void> {
    let { accessToken, refreshToken } = session;
    for (let logins = 0; !isOver; logins++) {
      const client = all.httpClient();
      const refreshed = await send("refresh", () => all.refresh(refreshToken));
      if (refreshed.status === 200) ({ accessToken, refreshToken } = refreshed.body);
      await send("profile", () => client.get("/user/profile", accessToken));
      if (logins < 90) await send("login", () => client.post("/auth/login", user.credentials)); // 101 sessions end the first
      await send("chat", () => client.post("/ai/chat", conversationOf("case: plain"), accessToken));
      const stream = () => client.post("/ai/stream", conversationOf("case: plain"), accessToken);
      const { status, text } = await send("stream", stream);
      if (status === 200 && eventsIn(text).error) failures.push(`stream: ${text}`);
      await wait(PAUSE_MS);
    }
    await send("the last refresh", () => all.refresh(refreshToken));
    await send("the last profile", () => all.httpClient().get("/user/profile", accessToken));
  }
  const work = Promise.all(users.map(use)).then(() => failures);
  return {
    counts,
    /**
     * Ends the load.
     * @returns the failures
     */
    async stop() {
      isOver = true;
      return work;
    },
  };
}

/**
 * Opens streams that their provider never ends.
 * @returns promises of their ends
 */
export async function openStreams(all: Deployment, { accessToken }: SignedIn, count: number) {
  return Promise.all(
    times(count, async () => {
      const response = await postJson(
        `${all.url}/ai/stream`,
        conversationOf("case: silent-midway"),
        accessToken,
      );
      const ended = response.text().then((text) => ({ at: performance.now(), ...eventsIn(text) }));
      ended.catch(() => {}); // the test awaits it later
      return { ended };
    }),
  );
}
