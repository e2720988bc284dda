import { describe, expect, test } from "vitest";
import type { SimulatedDialect } from "../../../scripts/simulators/simulator.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { startRawProvider } from "../../support/ai/raw-provider.ts";
import { startApp } from "../../support/app.ts";
import { forTest } from "../../support/suites.ts";
import { promptFor, readReply } from "./support.ts";

const GEMINI = "models/gemini-3.8-flash:generateContent";

/** Paths of base URLs by dialect, and the path of the request. */
const PATHS: { dialect: SimulatedDialect; bases: string[]; path: string }[] = [
  {
    dialect: "openai",
    bases: ["", "/", "/v1", "/v1/", "/v1//", "/v1/chat/completions"],
    path: "/v1/chat/completions",
  },
  {
    dialect: "openai-compatible",
    bases: ["", "/", "/v1", "/v1/", "/v1/chat/completions/"],
    path: "/v1/chat/completions",
  },
  // OpenAI's clients put nothing but this after a base URL.
  {
    dialect: "openai-compatible",
    bases: ["/api/paas/v4", "/api/paas/v4/"],
    path: "/api/paas/v4/chat/completions",
  },
  {
    dialect: "openai-compatible",
    bases: ["/v1beta/openai", "/v1beta/openai/"],
    path: "/v1beta/openai/chat/completions",
  },
  {
    dialect: "openai",
    bases: ["/openai/v1", "/openai/v1/", "//openai//v1//", "/openai/v1/chat/completions/"],
    path: "/openai/v1/chat/completions",
  },
  { dialect: "openai-compatible", bases: ["/inference"], path: "/inference/chat/completions" },
  {
    dialect: "openai-compatible",
    bases: ["/chat/completions"],
    path: "/chat/completions",
  },
  {
    dialect: "anthropic",
    bases: ["", "/", "/v1", "/v1/", "/v1/messages"],
    path: "/v1/messages",
  },
  {
    dialect: "anthropic",
    bases: ["/a", "/a/", "/a/v1", "/a/v1/", "/a/v1/messages/"],
    path: "/a/v1/messages",
  },
  {
    dialect: "anthropic",
    bases: ["/anthropic", "/anthropic/", "/anthropic/v1//"],
    path: "/anthropic/v1/messages",
  },
  {
    dialect: "anthropic",
    bases: ["/v1/account/gateway/anthropic"],
    path: "/v1/account/gateway/anthropic/v1/messages",
  },
  {
    dialect: "google",
    bases: ["", "/", "/v1beta", "/v1beta/", "/v1beta/models", "/v1beta/models/"],
    path: `/v1beta/${GEMINI}`,
  },
  {
    dialect: "google",
    bases: ["/v1alpha", "/v1alpha/", "/v1alpha/models//"],
    path: `/v1alpha/${GEMINI}`,
  },
  { dialect: "google", bases: ["/v1", "/v1/", "/v1/models"], path: `/v1/${GEMINI}` },
  { dialect: "google", bases: ["/g", "/g/", "/g/v1beta"], path: `/g/v1beta/${GEMINI}` },
];
const ROWS = PATHS.flatMap(({ bases, ...row }) => bases.map((base) => ({ ...row, base })));

describe("Provider client: base URLs", () => {
  test.each(ROWS)("$dialect, $base: requests go to $path", async ({ dialect, base, path }) => {
    const server = await forTest(startRawProvider(({ socket }) => socket.end()));
    const catalogue = readCatalogue();
    const entry = catalogue.providers.find((each) => each.dialect === dialect);
    if (!entry) throw new Error(`No provider speaks ${dialect}.`);
    const variables = {
      [entry.keyVariable]: "key",
      [entry.baseUrlVariable]: `${server.url}${base}`,
    };
    const providers = await forTest(openProviders(catalogue, variables, { retries: 0 }));
    const provider = providers.byId.get(entry.id);
    if (!provider) throw new Error("The provider isn't open.");
    await readReply(provider, { ...promptFor(entry, "Hello."), isStream: false });
    expect(server.paths()).toEqual([path]);
  });
});

test("POST /ai/chat, POST /ai/stream: the log contains the path that a provider does not have, without host, query and key", async () => {
  const server = await forTest(
    startRawProvider(({ socket }) =>
      socket.write("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"),
    ),
  );
  const env = {
    OPENAI_API_KEY: "key-of-openai",
    OPENAI_BASE_URL: `${server.url}/nowhere`,
    GEMINI_API_KEY: "key-of-gemini",
    GEMINI_BASE_URL: `${server.url}/elsewhere`,
  };
  const app = await forTest(startApp({ mode: "embedded", env }));
  const { post } = await app.signIn();
  for (const path of ["/ai/chat", "/ai/stream"]) {
    for (const provider of ["provider-a", "provider-c"]) {
      const { text } = await post(path, conversationOf("Hello.", provider));
      expect(text).toContain(`The AI provider ${provider} failed: rejected the request.`);
    }
  }
  const lines = app.logs.filter((line) => line.includes("rejected the request"));
  const details = lines.map((line) => JSON.parse(line).detail);
  expect(details).toEqual([
    "HTTP 404 at /nowhere/chat/completions",
    `HTTP 404 at /elsewhere/v1beta/${GEMINI}`,
    "HTTP 404 at /nowhere/chat/completions",
    "HTTP 404 at /elsewhere/v1beta/models/gemini-3.8-flash:streamGenerateContent",
  ]);
  expect(lines.join()).not.toMatch(/127\.0\.0\.1|key-of/);
});
