// Receives events of a webhook: verifies each signature, and skips events that it has had before.
// Reads WEBHOOK_SECRET (whsec_…) and PORT.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const MAX_AGE_SECONDS = 300;
const seen = new Set(); // a table with a unique column in a real service

function isSigned(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": timestamp } = headers;
  if (!(Math.abs(Date.now() / 1_000 - Number(timestamp)) <= MAX_AGE_SECONDS)) return false;
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest();
  const signatures = (headers["webhook-signature"] ?? "").split(" ");
  return signatures.some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  if (!isSigned(request.headers, body)) return response.writeHead(401).end();
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    const { type, data } = JSON.parse(body);
    process.stdout.write(`${type} ${data.userId ?? ""}\n`);
    seen.add(id);
  }
  response.writeHead(204).end();
}).listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
