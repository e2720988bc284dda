import { expect, test } from "vitest";
import { signInAt } from "../support/accounts.ts";
import { freshStorage } from "../support/database/databases.ts";
import { startProcess } from "../support/processes/processes.ts";

const NO_MEMORY = "--import=data:text/javascript,process.constrainedMemory=()=>1";
const MIB = 1024 * 1024;

test("Memory: a process with almost no free heap answers the largest requests, one at a time", async () => {
  const process = await startProcess({ ...(await freshStorage()), NODE_OPTIONS: NO_MEMORY });
  const { browser: httpClient, accessToken } = await signInAt(process.url);
  expect((await httpClient.get("/user/export", accessToken)).status).toBe(200);
  const conversation = { provider: "provider-a", messages: [{ role: "user", content: "Hello" }] };
  const pad = "x".repeat(2 * MIB - JSON.stringify({ ...conversation, pad: "" }).length);
  expect(
    (await httpClient.post("/ai/chat", { ...conversation, pad }, accessToken)).body,
  ).toMatchObject({
    code: "PROVIDER_NOT_CONFIGURED",
  });
  const text = "x".repeat(8 * MIB - 200); // more characters than a model may get
  const question = { model: "model-a-1", messages: [{ role: "user", content: text }] };
  const { status, body } = await httpClient.post("/v1/chat/completions", question, accessToken);
  expect([status, body.error.param]).toEqual([400, "messages"]);
  expect(await process.end("SIGTERM")).toBe(0);
});
