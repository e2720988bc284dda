import { Agent, request } from "node:http";
import { setTimeout as wait } from "node:timers/promises";

/** Chats with API keys at a steady rate. */
export type SteadyCalls = {
  /** Of the REST port. */
  url: string;
  /** They are used in turn. */
  keys: readonly string[];
  perSecond: number;
  seconds: number;
};

/** How steady calls went: their statuses, their rate, and their latencies in ms. */
export type SteadyAnswers = { statuses: number[]; perSecond: number; p50: number; p99: number };

/** Time between two looks at what is due, in ms. */
const STEP_MS = 5;
const BODY = JSON.stringify({
  model: "model-a-1",
  max_tokens: 100,
  messages: [{ role: "user", content: "5 tokens" }],
});

/** Sends calls at their rate, whether or not earlier ones have been answered. */
export async function callSteadily(calls: SteadyCalls): Promise<SteadyAnswers> {
  const { keys, perSecond, seconds } = calls;
  const send = createSend(calls.url);
  const sent: ReturnType<typeof send>[] = [];
  const startedAt = performance.now();
  const elapsed = () => (performance.now() - startedAt) / 1_000;
  while (elapsed() < seconds) {
    const due = elapsed() * perSecond;
    while (sent.length < due) sent.push(send(keys[sent.length % keys.length] as string));
    await wait(STEP_MS);
  }
  const answers = await Promise.all(sent);
  const sorted = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
  return {
    statuses: [...new Set(answers.map(({ status }) => status))],
    perSecond: answers.length / seconds,
    p50: at(0.5),
    p99: at(0.99),
  };
}

function createSend(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  return (key: string) =>
    new Promise<{ status: number; ms: number }>((resolve, reject) => {
      const startedAt = performance.now();
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      request(`${url}/v1/chat/completions`, { method: "POST", agent, headers }, (response) => {
        response.resume().once("end", () => {
          resolve({ status: response.statusCode ?? 0, ms: performance.now() - startedAt });
        });
      })
        .on("error", reject)
        .end(BODY);
    });
}
