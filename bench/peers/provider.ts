/**
 * A cheap simulator of OpenAI: a reply in one document, in 50 paced chunks or all of them at once,
 * or as a stream that stays open.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const CHUNKS = 50;
const PACE_MS = 20;
const chunk = (delta: object, rest: object = {}) =>
  `data: ${JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-5", choices: [{ index: 0, delta, finish_reason: null }], usage: null, ...rest })}\n\n`;
const usage = { prompt_tokens: 12, completion_tokens: 100, total_tokens: 112 };
const text = chunk({ content: "a few words " });
const last =
  chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
  chunk({}, { choices: [], usage }) +
  "data: [DONE]\n\n";
const whole = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "gpt-5",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "a few words ".repeat(CHUNKS) },
      finish_reason: "stop",
    },
  ],
  usage,
});

function stream(response: ServerResponse, prompt: string): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(chunk({ role: "assistant", content: "" }) + text);
  if (prompt.includes("stay open")) return;
  if (prompt.includes("at once")) return void response.end(text.repeat(CHUNKS - 1) + last);
  let left = CHUNKS - 1;
  const timer = setInterval(() => {
    left -= 1;
    if (left > 0) return void response.write(text);
    clearInterval(timer);
    response.end(text + last);
  }, PACE_MS);
  response.on("close", () => clearInterval(timer));
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (part: string) => {
    body += part;
  });
  request.on("end", () => {
    if (body.includes('"stream":true')) return stream(response, body);
    response.writeHead(200, { "content-type": "application/json" }).end(whole);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
