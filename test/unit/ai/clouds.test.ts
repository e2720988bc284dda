import { AnthropicVertex } from "@anthropic-ai/vertex-sdk";
import { GoogleGenAI } from "@google/genai";
import { afterEach, describe, expect, test, vi } from "vitest";
import { PROJECT, REGION } from "../../../scripts/simulators/clouds/doors.ts";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { KEY } from "../../../scripts/simulators/simulator.ts";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { ProviderError } from "../../../services/ai/providers/errors.ts";
import type { Prompt, ProviderBounds } from "../../../services/ai/providers/provider.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { CLOUDS, startClouds } from "../../support/ai/clouds.ts";
import { forSuite, forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";
import { expectedOf } from "./expectations.ts";
import { promptFor, readReply } from "./support.ts";

type Clouds = Awaited<ReturnType<typeof startClouds>>;
type Variables = Readonly<Record<string, string>>;

afterEach(() => {
  vi.unstubAllEnvs();
});

/**
 * Opens a cloud at its simulator, with the credentials of this process until the test has ended.
 */
async function openCloud(
  { env, simulatorOf, use }: Clouds,
  id: string,
  variables: Variables = {},
  limits: Partial<ProviderBounds> = {},
) {
  use();
  const catalogue = readCatalogue(env.AI_CATALOG);
  const entry = catalogue.providers.find((each) => each.id === id);
  const opened = openProviders(catalogue, { ...env, ...variables }, { backoffMs: 1, ...limits });
  const providers = await forTest(opened);
  const provider = providers.byId.get(id);
  if (!entry || !provider) throw new Error(`${id} is not open.`);
  const { requests } = simulatorOf(id);
  const promptOf = (name: string): Prompt => ({
    ...promptFor(entry, `case: ${name} ${crypto.randomUUID()}`),
    isStream: false,
  });
  return {
    ...{ providers, entry, provider, requests, promptOf },
    /** Makes a call that fails. Says whether each attempt, and the last one, may have been read. */
    async hear(name: string) {
      const heard = { isUnread: () => false, retries: [] as boolean[] };
      const failure = await (async () => {
        const reply = provider(promptOf(name), new AbortController().signal, {
          onProgress(progress) {
            if (progress.kind === "sending") heard.isUnread = progress.isUnread;
            if (progress.kind === "retrying") heard.retries.push(progress.mayBeRead);
          },
        });
        for await (const _ of reply);
      })().catch((thrown: unknown) => thrown);
      if (!(failure instanceof ProviderError)) throw failure ?? new Error("It has not failed.");
      return { failure, retries: heard.retries, isUnread: heard.isUnread() };
    },
    ask: (name: string, isStream = false) => readReply(provider, { ...promptOf(name), isStream }),
  };
}

/** Where a request for a model of each cloud goes, by whether it asks for a stream. */
const VERTEX = "/v1/projects/simulated-project/locations/eu-central-1/publishers";
const PATHS: Readonly<Record<string, readonly [stream: string, whole: string]>> = {
  "azure-openai": both("/openai/deployments/gpt-6.1-sol/chat/completions"),
  "bedrock-openai": both("/openai/v1/chat/completions"),
  "bedrock-anthropic": both("/anthropic/v1/messages"),
  "vertex-anthropic": [
    `${VERTEX}/anthropic/models/claude-sonnet-5-5:streamRawPredict`,
    `${VERTEX}/anthropic/models/claude-sonnet-5-5:rawPredict`,
  ],
  "vertex-google": [
    `${VERTEX}/google/models/gemini-3.8-flash:streamGenerateContent`,
    `${VERTEX}/google/models/gemini-3.8-flash:generateContent`,
  ],
};
function both(path: string): readonly [string, string] {
  return [path, path];
}

/** Cases of the simulators: awkward replies, failures of every kind, and failures in the middle. */
const CASES = [
  ...["plain", "idle", "thinking", "multi-line", "bytes", "gzip", "escapes", "at-maximum"],
  ...["invalid", "not-found", "too-large", "forbidden", "no-credit", "quota", "rate-limited"],
  ...["overloaded", "broken", "timeout", "html-502", "html-200", "reset", "no-content"],
  ...["reset-midway", "closed-midway", "ended-midway", "error-event", "malformed-event"],
  ...["overloaded-once", "rate-limited-once", "reset-once", "blocked", "calling"],
  "redirect http://127.0.0.1:9/",
];

describe.each(CLOUDS)(
  "Models in a cloud, with credentials of the process: $id",
  async ({ id, base }) => {
    const clouds = await forSuite(startClouds());

    test("streamed and complete replies use the URLs of the cloud and nothing else of the SDK", async () => {
      const { ask, requests } = await openCloud(clouds, id);
      expect(await ask("plain", true)).toMatchObject({ text: REPLY });
      expect(await ask("plain")).toMatchObject({ text: REPLY });
      expect(requests.slice(-2).map(({ path }) => path)).toEqual(PATHS[id]);
      for (const { headers } of requests.slice(-2)) {
        expect(headers["user-agent"]).toMatch(/^gatehouse\//);
        expect(Object.keys(headers).filter((name) => name.startsWith("x-stainless"))).toEqual([]);
      }
    });

    test.each(CASES)("outcomes match the dialect: %s", async (name) => {
      const { ask } = await openCloud(clouds, id, {}, { afterOutcomeMs: 100 });
      const { stream, chat } = expectedOf(name);
      expect(await ask(name, true)).toMatchObject(stream);
      expect(await ask(name)).toMatchObject(chat);
    });

    test("only the product retries, not the SDK", async () => {
      const { ask, requests } = await openCloud(clouds, id);
      const before = requests.length;
      expect(await ask("overloaded")).toMatchObject({ failure: "overloaded" });
      expect(requests.length - before).toBe(3);
    });

    test("concurrent calls share the credentials", async () => {
      const { ask } = await openCloud(clouds, id);
      const before = clouds.identity.issued();
      const replies = await Promise.all(times(20, () => ask("plain", true)));
      expect(replies.map(({ text }) => text)).toEqual(times(20, () => REPLY));
      expect(clouds.identity.issued() - before).toBeLessThanOrEqual(1);
    });

    test("an attempt that was written may have been read, even if its connection is lost", async () => {
      const { hear, requests } = await openCloud(clouds, id, {}, { retries: 1 });
      const before = requests.length;
      const { failure, retries, isUnread } = await hear("reset");
      expect(failure?.kind).toBe("unreachable");
      expect({ retries, isUnread }).toEqual({ retries: [true], isUnread: false });
      expect(requests.length - before).toBe(2);
    });

    test("an attempt without a connection has not been read", async () => {
      const [variable, path] = base;
      const nowhere = { [variable]: `http://127.0.0.1:9${path}` };
      const { hear } = await openCloud(clouds, id, nowhere, { retries: 1 });
      const { failure, retries, isUnread } = await hear("plain");
      expect(failure).toMatchObject({ kind: "unreachable", facts: { detail: "ECONNREFUSED" } });
      expect({ retries, isUnread }).toEqual({ retries: [false], isUnread: true });
    });

    test("the connection closes when the reader disconnects", async () => {
      const { provider, promptOf, requests } = await openCloud(clouds, id);
      const client = new AbortController();
      const reading = (async () => {
        for await (const event of provider(
          { ...promptOf("silent-midway"), isStream: true },
          client.signal,
        ))
          if (event.kind === "text") client.abort(new Error("gone"));
      })();
      await expect(reading).rejects.toThrow("gone");
      await until("the end of the connection", () => requests.at(-1)?.closedAt);
    });

    test("the product's time limits apply", async () => {
      const { ask } = await openCloud(
        clouds,
        id,
        {},
        { firstByteMs: 200, totalMs: 400, retries: 0 },
      );
      expect(await ask("silent", true)).toMatchObject({ failure: "timed out" });
    });
  },
);

describe.each(CLOUDS)(
  "Credentials that expire while the process runs: $id",
  async ({ id, endpoint }) => {
    test("an expired token is replaced before the next call", async () => {
      const clouds = await forTest(startClouds({ lifetimeSeconds: 2 }));
      const { ask, requests } = await openCloud(clouds, id);
      expect(await ask("plain")).toMatchObject({ text: REPLY });
      const tokens = () => clouds.identity.issued();
      const first = tokens();
      await until(
        "the end of the first token",
        () => !clouds.identity.isValid(`simulated-token-${first}`),
      );
      const before = requests.length;
      expect(await ask("plain", true)).toMatchObject({ text: REPLY });
      expect(tokens()).toBeGreaterThan(first);
      expect(requests.length - before).toBe(1);
    });

    // The library of Azure keeps a token of a managed identity until it expires, whatever happens.
    test.skipIf(endpoint === "azure")(
      "one that is refused unexpectedly is replaced, and the call continues",
      async () => {
        const clouds = await forTest(startClouds());
        const { ask } = await openCloud(clouds, id);
        expect(await ask("plain")).toMatchObject({ text: REPLY });
        const replies = times(10, () => ask("plain", true));
        clouds.identity.revoke();
        replies.push(...times(10, () => ask("plain")));
        for (const reply of await Promise.all(replies))
          expect(reply).toMatchObject({ text: REPLY });
      },
    );

    // The library of Azure looks for a managed identity for 20 seconds.
    test.skipIf(endpoint === "azure" && !process.env.TEST_FULL)(
      "a call without credentials fails as unread, and succeeds once there are some",
      async () => {
        const clouds = await forTest(startClouds());
        clouds.identity.setAway(true);
        const { ask, hear, requests } = await openCloud(clouds, id, {}, { retries: 0 });
        const { failure, isUnread } = await hear("plain");
        expect(["unreachable", "refused the key"]).toContain(failure?.kind);
        expect(failure?.facts.detail).toMatch(
          /^(no credentials: \w+|E[A-Z]+|HTTP \d+ for credentials)$/,
        );
        expect({ isUnread, requests }).toEqual({ isUnread: true, requests: [] });
        clouds.identity.setAway(false);
        expect(await ask("plain")).toMatchObject({ text: REPLY });
      },
    );

    test("a reader that disconnects does not wait for credentials", async () => {
      const clouds = await forTest(startClouds());
      const { provider, promptOf } = await openCloud(clouds, id);
      const client = new AbortController();
      const reading = provider(promptOf("plain"), client.signal).next(); // asks for credentials
      client.abort(new Error("gone"));
      await expect(reading).rejects.toThrow("gone");
    });
  },
);

describe.each(CLOUDS.filter(({ keyVariable }) => keyVariable))(
  "API keys of a cloud: $id",
  async ({ id, keyVariable = "" }) => {
    const clouds = await forSuite(startClouds());

    test("a key takes precedence over the credentials of the process", async () => {
      const { ask } = await openCloud(clouds, id, { [keyVariable]: KEY });
      expect(await ask("plain", true)).toMatchObject({ text: REPLY });
      expect(clouds.identity.issued()).toBe(0);
    });

    test("one of several keys that is refused is set aside, and the call continues with the next", async () => {
      const keys = { [keyVariable]: `wrong-key, ${KEY}` };
      const { ask, providers } = await openCloud(clouds, id, keys);
      expect(await ask("plain")).toMatchObject({ text: REPLY });
      expect(providers.states().get(id)).toMatchObject({
        keys: 2,
        setAside: [{ number: 1, reason: "refused the key" }],
      });
    });
  },
);

test("Bedrock: requests are signed with the keys of a user as well as with those of a machine", async () => {
  const clouds = await forTest(startClouds({ awsKeys: "static" }));
  for (const id of ["bedrock-openai", "bedrock-anthropic"]) {
    const { ask, requests } = await openCloud(clouds, id);
    expect(await ask("plain", true)).toMatchObject({ text: REPLY });
    expect(requests.at(-1)?.headers.authorization).toContain("Credential=AKIASIMULATEDSTATIC0/");
  }
  const { ask } = await openCloud(clouds, "bedrock-openai");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "another");
  expect(await ask("plain")).toMatchObject({ failure: "refused the key" });
});

test("Clouds: variables of other providers have no effect", async () => {
  const clouds = await forTest(startClouds());
  const away = "http://127.0.0.1:9";
  const others = {
    ...{ OPENAI_API_KEY: "another-key", OPENAI_ADMIN_KEY: "another-key", OPENAI_BASE_URL: away },
    ...{ OPENAI_ORG_ID: "another", ANTHROPIC_API_KEY: "another-key", ANTHROPIC_BASE_URL: away },
    AWS_BEARER_TOKEN_BEDROCK: "another-key",
    AZURE_OPENAI_API_KEY: "another-key",
  };
  for (const [name, value] of Object.entries(others)) vi.stubEnv(name, value);
  for (const { id } of CLOUDS) {
    const { ask, requests } = await openCloud(clouds, id);
    expect(await ask("plain")).toMatchObject({ text: REPLY });
    expect(JSON.stringify(requests)).not.toContain("another");
  }
});

test("Vertex: requests equal those of the official SDKs", async () => {
  const clouds = await forTest(startClouds());
  const [projectId, region] = [PROJECT, REGION];
  const gemini = await openCloud(clouds, "vertex-google");
  expect(await gemini.ask("plain", true)).toMatchObject({ text: REPLY });
  const sdk = new GoogleGenAI({
    ...{ vertexai: true, project: projectId, location: region, apiVersion: "v1" },
    httpOptions: { baseUrl: clouds.simulatorOf("vertex-google").url },
  });
  const contents = "case: plain";
  const model = gemini.entry.models[0].upstream;
  for await (const _ of await sdk.models.generateContentStream({ model, contents }));
  const [own, theirs] = gemini.requests.slice(-2);
  expect(theirs?.path).toBe(own?.path);

  const claude = await openCloud(clouds, "vertex-anthropic");
  expect(await claude.ask("plain", true)).toMatchObject({ text: REPLY });
  const { anthropic_version: _, ...body } = JSON.parse(claude.requests.at(-1)?.text ?? "{}");
  const baseURL = `${clouds.simulatorOf("vertex-anthropic").url}/v1`;
  const { messages } = new AnthropicVertex({ projectId, region, baseURL });
  type Request = Parameters<typeof messages.create>[0];
  await messages.create({ ...body, model: claude.entry.models[0].upstream } as Request);
  const [ours, sdks] = claude.requests.slice(-2);
  expect([sdks?.path, sdks?.body]).toEqual([ours?.path, ours?.body]);
});

test("Vertex: numbers of a tool call are sent unchanged, even beyond 2^53", async () => {
  const clouds = await forTest(startClouds());
  const { provider, entry, requests } = await openCloud(clouds, "vertex-anthropic");
  const exact = '{"id":12345678901234567890}';
  const call = { id: "call_1", name: "look_up", arguments: exact };
  const prompt: Prompt = {
    ...{ model: entry.models[0], isStream: false },
    tools: [{ name: "look_up", parameters: { type: "object" } }],
    messages: [
      { role: "user", parts: [{ text: "case: plain" }] },
      { role: "assistant", parts: [], toolCalls: [call] },
      { role: "tool", parts: [{ text: "found" }], resultOf: call },
    ],
  };
  await readReply(provider, prompt);
  const { text } = requests.at(-1) ?? {};
  expect(text).toContain(exact);
  expect(text).toContain('"anthropic_version":"2026-10-21"');
});
