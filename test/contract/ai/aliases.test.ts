import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { completionOf, readCompletion } from "../../support/ai/completions.ts";
import {
  breaksOff,
  failsWith,
  isSilent,
  MOODY_REPLY,
  resets,
  startMoodyProviders,
  works,
} from "../../support/ai/moody-providers.ts";
import { createKey } from "../../support/api-keys.ts";
import { startSuiteApp } from "../../support/app.ts";
import { forSuite } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const PATH = "/v1/chat/completions";
const PIXEL = "data:image/png;base64,iVBORw0KGgo=";
/** Failures with which a call goes on. */
const GOES_ON = [
  {
    name: "rate limited",
    mood: failsWith(429, { code: "rate_limit_exceeded" }, { "retry-after": "60" }),
  },
  { name: "quota exhausted", mood: failsWith(429, { code: "insufficient_quota" }) },
  { name: "overloaded", mood: failsWith(503, { code: "overloaded" }) },
  { name: "internal error", mood: failsWith(500, { code: "server_error" }) },
  { name: "unreachable", mood: resets },
  { name: "timed out", mood: isSilent },
  { name: "refused the key", mood: failsWith(401, { code: "invalid_api_key" }) },
];
/** Failures that would follow the call to another model, or that another one must not undo. */
const STAYS = [
  { name: "rejected", mood: failsWith(400, { code: "invalid_value" }), code: "provider_rejected" },
  {
    name: "too-long",
    mood: failsWith(400, { code: "context_length_exceeded" }),
    code: "context_length_exceeded",
  },
  { name: "blocked", mood: failsWith(400, { code: "content_filter" }), code: "content_filter" },
];
const idOf = (name: string) => `to-${name.replaceAll(" ", "-")}`;

const target = (provider: string, weight: number) => ({ provider, model: provider, weight });
const SHIPPED = ["provider-a", "provider-b"].map((provider) => ({
  provider,
  model: `model-${provider.at(-1)}-1`,
  weight: 0,
}));
const before = (name: string) => ({ name: `with-${name}`, targets: [target(name, 1), ...SHIPPED] });
const failing = [...GOES_ON, ...STAYS].map(({ name }) => idOf(name));
const others = ["cut", "last", "second", "third", "broken", "keyed", "limited", "hurried", "off"];
const moody = await forSuite(
  startMoodyProviders(
    {
      ...Object.fromEntries([...failing, ...others].map((name) => [name, `sk-${name}-secret`])),
      ...{
        keyed: "sk-keyed-first, sk-keyed-second",
        limited: "sk-limited-first,sk-limited-second",
        hurried: "sk-hurried-first,sk-hurried-second",
      },
      off: "",
    },
    [
      ...[...failing, "cut", "broken"].map(before),
      {
        name: "chain",
        targets: ["last", "second", "third"].map((name, i) => target(name, i ? 0 : 1)),
      },
      {
        name: "spread",
        targets: [{ ...SHIPPED[0], weight: 3 }, SHIPPED[1] && { ...SHIPPED[1], weight: 1 }],
      },
      { name: "seeing", targets: [target("second", 1), { ...SHIPPED[1], weight: 0 }] },
      { name: "blind", targets: [target("second", 1), target("third", 1)] },
      { name: "half", targets: [target("off", 1), { ...SHIPPED[1], weight: 0 }] },
      { name: "nobody", targets: [target("off", 1)] },
    ],
  ),
);
const app = await startSuiteApp({
  mode: process.env.TEST_MODE === "apart" ? "apart" : "embedded", // one process: breakers are not shared
  env: { ...moody.env, AI_FIRST_BYTE_TIMEOUT: "500ms", AI_RETRIES: "1" },
});
for (const { name, mood } of [...GOES_ON, ...STAYS]) moody.set(idOf(name), mood);

const question = (model: string, fields: object = {}) => ({
  ...{ model, messages: [{ role: "user", content: `case: plain ${crypto.randomUUID()}` }] },
  ...fields,
});
/** Who has replied. */
const whoIn = ({ headers, body }: { headers: Headers; body: { model?: string } }) => [
  headers.get("x-ai-provider"),
  headers.get("x-ai-model"),
  body.model,
];
const statesOf = async () => {
  const { body } = await (await app.signInAdmin()).get("/admin/providers");
  return new Map((body as { provider: string }[]).map((state) => [state.provider, state]));
};

describe("POST /v1/chat/completions with an alias", () => {
  test.each(GOES_ON)(
    "continues with the next model before the first byte: $name",
    async ({ name }) => {
      const { user, post } = await app.signIn();
      const alias = `with-${idOf(name)}`;
      const isStream = name === "timed out"; // a whole reply may take as long as the call
      const request = question(alias, { stream: isStream });
      const { status, headers, body, text } = await post(PATH, request);
      expect([status, headers.get("x-ai-provider")]).toEqual([200, "provider-a"]);
      expect(headers.get("x-ai-model")).toBe("model-a-1");
      if (isStream) expect(text).toContain('"model":"model-a-1"');
      else
        expect(body).toMatchObject({
          model: "model-a-1",
          choices: [{ message: { content: REPLY } }],
        });
      expect(moody.requestsOf(idOf(name))).toHaveLength(1);
      const query = `select alias, provider, model, attempts, outcome from ai_usage where user_id = ?`;
      const rows = () => app.sql<{ outcome: string }>(query, [user.id]);
      await until("the usage", async () => (await rows())[0]?.outcome === "completed");
      expect(await rows()).toEqual([
        ...[
          { alias, provider: "provider-a", model: "model-a-1", attempts: 2, outcome: "completed" },
        ],
      ]);
    },
  );

  test.each(STAYS)("does not continue with another model: $name", async ({ name, code }) => {
    const { post } = await app.signIn();
    const sent = app.providers.map(({ requests }) => requests.length);
    const answer = await post(PATH, question(`with-${idOf(name)}`));
    expect(answer).toMatchObject({ status: 400, body: { error: { code } } });
    expect(app.providers.map(({ requests }) => requests.length)).toEqual(sent);
  });

  test("does not continue after the first byte: the stream ends with an error", async () => {
    moody.set("cut", breaksOff);
    const { post } = await app.signIn();
    const sent = app.providers.map(({ requests }) => requests.length);
    const { text } = await post(PATH, question("with-cut", { stream: true }));
    expect(text).toContain("At your");
    expect(text).toMatch(/data: \{"error":.*\n\ndata: \[DONE\]\n\n$/);
    expect(text).not.toContain('"finish_reason":"');
    expect(app.providers.map(({ requests }) => requests.length)).toEqual(sent);
  });

  test("makes at most AI_RETRIES + number of targets attempts, in the order of the list", async () => {
    const names = ["last", "second", "third"];
    for (const name of names) moody.set(name, failsWith(503, { code: "overloaded" }));
    const before = names.map((name) => moody.requestsOf(name).length);
    const { post } = await app.signIn();
    const { status, body } = await post(PATH, question("chain"));
    expect([status, body.error.code]).toEqual([503, "provider_overloaded"]);
    expect(body.error.message).toContain("third");
    const after = names.map((name, i) => moody.requestsOf(name).length - (before[i] ?? 0));
    expect(after).toEqual([1, 1, 2]);
    for (const name of names) moody.set(name, works);
  });

  test("chooses the first model by weight", async () => {
    const { post } = await app.signIn();
    const answers = await Promise.all(times(60, () => post(PATH, question("spread"))));
    const counts = Map.groupBy(answers, (answer) => answer.headers.get("x-ai-provider"));
    expect([...counts.keys()].sort()).toEqual(["provider-a", "provider-b"]);
    expect(counts.get("provider-a")?.length).toBeGreaterThan(counts.get("provider-b")?.length ?? 0);
  });

  test("skips models that do not support the call or have no key, and is 400 or 404 if none remains", async () => {
    const { post } = await app.signIn();
    const content = [
      { type: "text", text: "case: plain" },
      { type: "image_url", image_url: { url: PIXEL } },
    ];
    const messages = [{ role: "user", content }];
    const seen = await post(PATH, { model: "seeing", messages });
    expect(whoIn(seen)).toEqual(["provider-b", "model-b-1", "model-b-1"]);
    expect(await post(PATH, { model: "blind", messages })).toMatchObject({
      status: 400,
      body: { error: { code: "unsupported_value", param: "messages[0].content[1].image_url" } },
    });
    expect(whoIn(await post(PATH, question("half")))[0]).toBe("provider-b");
    expect(await post(PATH, question("nobody"))).toMatchObject({
      ...{ status: 404, body: { error: { code: "model_not_found" } } },
    });
  });

  test("lists the fields without effect on the model that replies", async () => {
    const { post, headers } = await app.signIn();
    const fields = { temperature: 0.5, user: "u-1", seed: 7 };
    const { headers: ofAlias } = await post(PATH, question("half", fields));
    const { headers: ofModel } = await post(PATH, question("model-b-1", fields));
    expect(ofAlias.get("x-ai-ignored")).toBe(ofModel.get("x-ai-ignored"));
    expect(ofAlias.get("x-ai-ignored")).toContain("seed");
    const { started } = await readCompletion(
      app,
      { ...completionOf("case: plain", "half"), seed: 7n },
      { headers },
    );
    expect(started).toMatchObject({ provider: "provider-b", ignored: ["seed"] });
  });
});

describe("Aliases", () => {
  test("GET /v1/models: lists aliases with a configured model, and returns one", async () => {
    const { get } = await app.signIn();
    const { body } = await get("/v1/models");
    const ids = (body.data as { id: string }[]).map(({ id }) => id);
    expect(ids).toContain("spread");
    expect(ids).toContain("half");
    expect(ids).not.toContain("nobody");
    expect((await get("/v1/models/spread")).body).toMatchObject({
      ...{ id: "spread", object: "model", owned_by: "gatehouse" },
    });
    expect((await get("/v1/models/nobody")).status).toBe(404);
  });

  test("a key that names an alias allows neither its models nor other aliases", async () => {
    const { key } = await createKey(await app.signIn(), { models: ["spread"] });
    const client = app.httpClient();
    expect((await client.get("/v1/models", key)).body.data).toMatchObject([{ id: "spread" }]);
    expect((await client.post(PATH, question("spread"), key)).status).toBe(200);
    for (const model of ["model-a-1", "half", "provider-b/model-b-1"])
      expect((await client.post(PATH, question(model), key)).status).toBe(404);
    const other = await createKey(await app.signIn(), { models: ["model-a-1"] });
    expect((await client.post(PATH, question("spread"), other.key)).status).toBe(404);
  });

  test("POST /ai/chat: rejects an alias, because the request names a provider", async () => {
    const { post } = await app.signIn();
    const messages = [{ role: "user", content: "case: plain" }];
    const request = { provider: "provider-a", model: "spread", messages };
    expect(await post("/ai/chat", request)).toMatchObject({
      status: 400,
      body: { violations: [{ field: "model" }] },
    });
  });
});

describe("Breaker", () => {
  test("opens after five failures in a row, and lets one call through after ten seconds", async () => {
    moody.set("broken", failsWith(503, { code: "overloaded" }));
    const { post } = await app.signIn();
    const ask = async () =>
      (await post(PATH, question("with-broken"))).headers.get("x-ai-provider");
    const sent = () => moody.requestsOf("broken").length;
    for (const n of [1, 2, 3, 4, 5]) expect([await ask(), sent()]).toEqual(["provider-a", n]);
    expect([await ask(), sent()]).toEqual(["provider-a", 5]);
    expect((await statesOf()).get("broken")).toMatchObject({
      ...{ configured: true, breaker: "open", attempts: 5, failedAttempts: 5 },
      ...{ lastFailure: "overloaded", lastFailureAt: expect.any(String) },
    });
    expect((await statesOf()).get("provider-a")).toMatchObject({ breaker: "closed" });
    expect(await app.metrics()).toContain('gatehouse_ai_breaker_open{provider="broken"} 1');
    expect(await app.metrics()).toContain(
      'gatehouse_ai_attempts_total{provider="broken",outcome="overloaded"} 5',
    );
    await post(PATH, question("broken")); // who names the model gets it
    expect(sent()).toBe(7); // with a retry
    moody.set("broken", works);
    app.clock.advance("10s");
    expect((await statesOf()).get("broken")).toMatchObject({ breaker: "half-open" });
    expect([await ask(), sent()]).toEqual(["broken", 8]);
    expect((await statesOf()).get("broken")).toMatchObject({ breaker: "closed" });
    expect(await app.metrics()).toContain('gatehouse_ai_breaker_open{provider="broken"} 0');
  });
});

describe("Several keys of a provider", () => {
  test("a refused key is set aside for ten minutes, and the call continues with the next one", async () => {
    moody.set("keyed", (request, ...answer) =>
      request.key === "sk-keyed-first"
        ? failsWith(401, { code: "invalid_api_key" })(request, ...answer)
        : works(request, ...answer),
    );
    const { post } = await app.signIn();
    const ask = async () => {
      const sent = moody.requestsOf("keyed").length;
      const { body } = await post(PATH, question("keyed"));
      expect(body.choices[0].message.content).toBe(MOODY_REPLY);
      return moody
        .requestsOf("keyed")
        .slice(sent)
        .map(({ key }) => key);
    };
    expect(await ask()).toEqual(["sk-keyed-first", "sk-keyed-second"]);
    expect(await ask()).toEqual(["sk-keyed-second"]);
    expect((await statesOf()).get("keyed")).toMatchObject({
      keys: 2,
      keysSetAside: [{ number: 1, reason: "refused the key", until: expect.any(String) }],
    });
    app.clock.advance("9m");
    expect(await ask()).toEqual(["sk-keyed-second"]);
    app.clock.advance("1m");
    expect(await ask()).toEqual(["sk-keyed-first", "sk-keyed-second"]);
    const shown = JSON.stringify([[...(await statesOf())], app.logs, await app.metrics()]);
    expect(shown).not.toMatch(/sk-keyed|keyed-(first|second)/);
    expect(shown).toContain("A key of the AI provider keyed is set aside: refused the key.");
  });

  test("a rate-limited key is set aside for its Retry-After", async () => {
    moody.set("limited", (request, ...answer) =>
      request.key === "sk-limited-first"
        ? failsWith(
            429,
            { code: "rate_limit_exceeded" },
            { "retry-after": "30" },
          )(request, ...answer)
        : works(request, ...answer),
    );
    const { post } = await app.signIn();
    const keys = () =>
      moody.requestsOf("limited").map(({ key }) => key.slice("sk-limited-".length));
    await post(PATH, question("limited"));
    await post(PATH, question("limited"));
    expect(keys()).toEqual(["first", "second", "second"]);
    app.clock.advance("31s");
    await post(PATH, question("limited"));
    expect(keys()).toEqual(["first", "second", "second", "first", "second"]);
  });

  test("a call goes on with the next key although the limit of the first says no time", async () => {
    moody.set("hurried", (request, ...answer) =>
      request.key === "sk-hurried-first"
        ? failsWith(429, { code: "rate_limit_exceeded" })(request, ...answer)
        : works(request, ...answer),
    );
    const { post } = await app.signIn();
    const { status } = await post(PATH, question("hurried"));
    expect(status).toBe(200);
    expect(moody.requestsOf("hurried").map(({ key }) => key)).toEqual([
      ...["sk-hurried-first", "sk-hurried-second"],
    ]);
    expect((await statesOf()).get("hurried")).toMatchObject({ keys: 2, keysSetAside: [] });
  });

  test("GET /admin/providers: shows providers without a key, and is for administrators", async () => {
    expect((await statesOf()).get("off")).toMatchObject({ configured: false, keys: 0 });
    expect((await (await app.signIn()).get("/admin/providers")).status).toBe(403);
  });
});
