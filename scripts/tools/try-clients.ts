/**
 * Installs the newest releases of clients that are too large for the tests into a temporary folder,
 * and runs them against its own Gatehouse with simulated providers: `node
 * scripts/tools/try-clients.ts [folder]`. Their results are in docs/clients.md.
 */
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { CALLING } from "../simulators/dialect-encoder.ts";
import { REPLY } from "../simulators/script.ts";
import { SIMULATED_DIALECTS, startProviderSimulator } from "../simulators/simulator.ts";

const CLIENTS = [
  "@continuedev/openai-adapters",
  "@librechat/agents",
  "@anthropic-ai/claude-code",
  "@openai/codex",
] as const;
/** The first model of each provider of the shipped catalogue. */
const MODELS = ["model-a-1", "model-b-1", "model-c-1", "model-d-1"];
const COMMAND_MS = 120_000;
const INSTALL_MS = 600_000;
const PASSWORD = "Correct-horse-1";
const TOOL = {
  name: "look_up",
  description: "Looks it up.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};

const folder = resolve(process.argv[2] ?? mkdtempSync(join(tmpdir(), "gatehouse-clients-")));
/** Programs of the clients write only here. */
const home = join(folder, "home");
mkdirSync(home, { recursive: true });

/** Runs a program to its end. Its input is empty. */
const run = (program: string, args: string[], env: NodeJS.ProcessEnv, timeout = COMMAND_MS) =>
  new Promise<{ code: number; out: string }>((done) => {
    const options = { cwd: folder, timeout, env };
    const child = execFile(program, args, options, (error, stdout, stderr) =>
      done({ code: Number(error?.code ?? (error ? 1 : 0)), out: stdout + stderr }),
    );
    child.stdin?.end();
  });

/** Runs a client, which gets nothing of the environment of this process. */
const runClient = (program: string, args: string[], env: Record<string, string>) =>
  run(program, args, { PATH: process.env.PATH, HOME: home, ...env });

/** Installs the clients. Scripts of packages do not run. */
async function install(): Promise<void> {
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund"];
  const packages = CLIENTS.map((name) => `${name}@latest`);
  const args = ["install", ...flags, ...packages];
  const { code, out } = await run("npm", args, process.env, INSTALL_MS);
  if (code !== 0) throw new Error(`npm install failed: ${out}`);
}

const versionOf = (name: string): string =>
  JSON.parse(readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")).version;

/** Loads a module that has been installed. */
// biome-ignore lint/suspicious/noExplicitAny: its types are installed with it
const load = (name: string): Promise<any> =>
  import(pathToFileURL(createRequire(join(folder, "index.js")).resolve(name)).href);

type Gatehouse = { url: string; key: string; close(): void };

/** Starts Gatehouse with simulated providers, and a user with an API key. */
async function startGatehouse(): Promise<Gatehouse> {
  const variables: Record<string, string> = {};
  for (const dialect of SIMULATED_DIALECTS)
    Object.assign(variables, (await startProviderSimulator({ dialect })).env);
  const child = spawn(process.execPath, ["gateway/main.ts"], {
    env: {
      ...{ PATH: process.env.PATH, ...variables },
      ...{ PORT: "0", GRPC_PORT: "0", DATA_DIR: mkdtempSync(join(tmpdir(), "gatehouse-data-")) },
      ...{ AI_CATALOG: "neutral", RATE_LIMITS: "off", LOG_LEVEL: "fatal" },
    },
    stdio: ["ignore", "inherit", "pipe"], // the addresses are on stderr
  });
  const url = await new Promise<string>((found, failed) => {
    let output = "";
    child.once("exit", (code) => failed(new Error(`Gatehouse ended with ${code}: ${output}`)));
    child.stderr.on("data", (part) => {
      output += part;
      const address = /events on (http:\/\/127\.0\.0\.1:\d+)/.exec(output)?.[1];
      if (address) found(address);
    });
  });
  const post = async (path: string, body: object, token = "") => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const answer = await fetch(url + path, {
      method: "POST",
      headers: token ? headers : { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Record<string, string>;
  };
  const user = { email: "ann@example.com", password: PASSWORD };
  await post("/auth/register", { ...user, name: "Ann", acceptTerms: true });
  const { accessToken } = await post("/auth/login", user);
  const { key = "" } = await post("/user/api-keys", { name: "clients" }, accessToken);
  return { url, key, close: () => child.kill("SIGTERM") };
}

/** @throws Error if two values differ */
function expectSame(actual: unknown, expected: unknown): void {
  const [found, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (found !== wanted) throw new Error(`expected ${wanted}, got ${found}`);
}

/** @throws Error unless the task fails */
async function expectFailure(task: () => Promise<unknown>): Promise<void> {
  const outcome = await task().then(
    () => "no error",
    () => undefined,
  );
  if (outcome) throw new Error("a reply that broke off is taken for a whole one");
}

/** What is tried, by its name. */
type Trials = Record<string, () => Promise<void>>;

const NAMES_OF_CALLS = CALLING.calls.map(({ name }) => name);
const broken = () => `case: reset-midway ${crypto.randomUUID()}`;
const user = (content: string) => ({ role: "user", content });

/** Continue's adapter for OpenAI. */
async function trialsOfContinue({ url, key }: Gatehouse): Promise<Trials> {
  const { constructLlmApi } = await load("@continuedev/openai-adapters");
  const api = constructLlmApi({ provider: "openai", apiKey: key, apiBase: `${url}/v1/` });
  const stays = new AbortController().signal;
  const read = async (request: object) => {
    const read = { text: "", calls: [] as string[], finish: "" };
    for await (const { choices } of api.chatCompletionStream({ ...request, stream: true }, stays)) {
      const [choice] = choices;
      read.text += choice?.delta.content ?? "";
      for (const { function: called } of choice?.delta.tool_calls ?? [])
        if (called?.name) read.calls.push(called.name);
      read.finish = choice?.finish_reason ?? read.finish;
    }
    return read;
  };
  const trials = MODELS.map((model): Trials => {
    const plain = { model, messages: [user("case: plain")] };
    const tools = { tools: [{ type: "function", function: TOOL }] };
    const asking = { model, messages: [user("case: calling")], ...tools };
    return {
      [`${model}: a whole reply`]: async () => {
        const { choices } = await api.chatCompletionNonStream(plain, stays);
        expectSame(choices[0].message.content, REPLY);
      },
      [`${model}: a stream`]: async () =>
        expectSame(await read(plain), { text: REPLY, calls: [], finish: "stop" }),
      [`${model}: tools, streamed`]: async () =>
        expectSame((await read(asking)).calls, NAMES_OF_CALLS),
      [`${model}: tools and their results, whole`]: async () => {
        const { choices } = await api.chatCompletionNonStream(asking, stays);
        const { message } = choices[0];
        const results = message.tool_calls.map(({ id }: { id: string }) => ({
          ...{ role: "tool", tool_call_id: id, content: "case: plain" },
        }));
        const messages = [...asking.messages, message, ...results];
        const next = await api.chatCompletionNonStream({ ...asking, messages }, stays);
        expectSame(next.choices[0].message.content, REPLY);
      },
      [`${model}: a stream that breaks off`]: () =>
        expectFailure(() => read({ model, messages: [user(broken())] })),
    };
  });
  return {
    ...Object.assign({}, ...trials),
    "a list of models": async () => {
      const ids = (await api.list()).map(({ id }: { id: string }) => id);
      expectSame(
        MODELS.filter((model) => !ids.includes(model)),
        [],
      );
    },
    embeddings: async () => {
      const { data } = await api.embed({ model: "embedding-a-1", input: ["a", "b"] });
      expectSame(data.length, 2);
    },
  };
}

/** The chat model of LibreChat, and a run of its agent with a tool. */
async function trialsOfLibreChat({ url, key }: Gatehouse): Promise<Trials> {
  const { getChatModelClass, Providers, Run } = await load("@librechat/agents");
  const { HumanMessage } = await load("@langchain/core/messages");
  const { tool } = await load("@langchain/core/tools");
  const optionsFor = (model: string) => ({
    ...{ model, apiKey: key, maxRetries: 0, configuration: { baseURL: `${url}/v1` } },
  });
  const trials = MODELS.map((model): Trials => {
    const chat = () => new (getChatModelClass(Providers.OPENAI))(optionsFor(model));
    const streamed = async (content: string) => {
      let text = "";
      for await (const piece of await chat().stream([new HumanMessage(content)]))
        text += piece.text;
      return text;
    };
    return {
      [`${model}: a whole reply`]: async () =>
        expectSame((await chat().invoke([new HumanMessage("case: plain")])).text, REPLY),
      [`${model}: a stream`]: async () => expectSame(await streamed("case: plain"), REPLY),
      [`${model}: an agent with a tool`]: async () => {
        const given: unknown[] = [];
        const lookUp = tool(
          (args: unknown) => {
            given.push(args);
            return "case: plain";
          },
          { name: TOOL.name, description: TOOL.description, schema: TOOL.parameters },
        );
        const agent = await Run.create({
          ...{ runId: crypto.randomUUID(), returnContent: true },
          graphConfig: {
            ...{ type: "standard", instructions: "Be brief.", tools: [lookUp] },
            llmConfig: { provider: Providers.OPENAI, streaming: true, ...optionsFor(model) },
          },
        });
        const content = await agent.processStream(
          { messages: [new HumanMessage("case: calling")] },
          {
            ...{ configurable: { thread_id: crypto.randomUUID() } },
            ...{ streamMode: "values", version: "v2" },
          },
        );
        expectSame(given.length, NAMES_OF_CALLS.length);
        expectSame(JSON.stringify(content).includes(JSON.stringify(REPLY).slice(1, -1)), true);
      },
      [`${model}: a stream that breaks off`]: () => expectFailure(() => streamed(broken())),
    };
  });
  return Object.assign({}, ...trials);
}

/** Expects that a program says something in good order. */
async function expectSaid(said: Promise<{ code: number; out: string }>, words = REPLY) {
  const { code, out } = await said;
  if (code !== 0 || !out.includes(words)) throw new Error(`it ended with ${code}: ${out}`);
}

/** Claude Code without a terminal. */
function trialsOfClaudeCode({ url, key }: Gatehouse): Trials {
  const wrapper = join(folder, "node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs");
  const ask = (prompt: string, ...flags: string[]) =>
    runClient(process.execPath, [wrapper, "-p", prompt, ...flags], {
      ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_AUTH_TOKEN: key, ANTHROPIC_MODEL: "model-b-1" },
      ...{ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
      CLAUDE_CODE_MAX_RETRIES: "0",
    });
  return {
    "one turn with its own tools offered": () => expectSaid(ask("case: plain")),
    "one turn, as JSON with usage": async () => {
      const { code, out } = await ask("case: plain", "--output-format", "json");
      if (code !== 0) throw new Error(`it ended with ${code}: ${out}`);
      const { result, is_error, usage } = JSON.parse(out.slice(out.indexOf("{")));
      expectSame([result, is_error, usage.output_tokens > 0], [REPLY, false, true]);
    },
    "a reply that breaks off": async () => {
      const { code } = await ask(broken());
      if (code === 0) throw new Error("a reply that broke off is taken for a whole one");
    },
  };
}

/** Codex without a terminal. */
function trialsOfCodex({ url, key }: Gatehouse): Trials {
  const program = join(folder, "node_modules/.bin/codex");
  mkdirSync(join(home, ".codex"), { recursive: true });
  writeFileSync(
    join(home, ".codex/config.toml"),
    `model = "model-a-1"
model_provider = "gatehouse"
web_search = "disabled"

[model_providers.gatehouse]
name = "Gatehouse"
base_url = "${url}/v1"
env_key = "GATEHOUSE_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`,
  );
  const ask = (prompt: string) =>
    runClient(program, ["exec", "--skip-git-repo-check", prompt], { GATEHOUSE_API_KEY: key });
  return {
    "one turn with its own tools offered": () => expectSaid(ask("case: plain")),
    "a reply that breaks off": async () => {
      const { code } = await ask(broken());
      if (code === 0) throw new Error("a reply that broke off is taken for a whole one");
    },
  };
}

const TRIALS: Record<(typeof CLIENTS)[number], (to: Gatehouse) => Trials | Promise<Trials>> = {
  "@continuedev/openai-adapters": trialsOfContinue,
  "@librechat/agents": trialsOfLibreChat,
  "@anthropic-ai/claude-code": trialsOfClaudeCode,
  "@openai/codex": trialsOfCodex,
};

await install();
const gatehouse = await startGatehouse();
for (const client of CLIENTS) {
  const trials = await TRIALS[client](gatehouse);
  process.stdout.write(`${client} ${versionOf(client)}\n`);
  for (const [name, trial] of Object.entries(trials)) {
    const failure = await trial().then(
      () => undefined,
      (error: Error) => error,
    );
    if (failure) process.exitCode = 1;
    process.stdout.write(`  ${failure ? "FAILED" : "passed"}  ${name}\n`);
    if (failure) process.stdout.write(`          ${failure.message.slice(0, 2_000)}\n`);
  }
}
gatehouse.close();
process.exit();
