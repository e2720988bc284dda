import { Code } from "@connectrpc/connect";
import { test as base, describe, expect } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  FailureSchema,
  ProviderFailure,
  Reason,
} from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { tokensIn } from "../../../scripts/simulators/dialect-encoder.ts";
import { PREFIX, REPLY } from "../../../scripts/simulators/script.ts";
import { PROVIDERS } from "../../support/ai/calls.ts";
import {
  type CompletionInit,
  completionOf,
  readCompletion,
  textMessage,
} from "../../support/ai/completions.ts";
import { testApp } from "../../support/app.ts";
import { errorOf } from "../../support/http/stub-services.ts";
import { until } from "../../support/until.ts";

const app = await testApp();
const test = base.extend("account", () => app.signIn());
const modelOf = (provider: string) => `model-${provider.at(-1)}-1`;

/** The error of a completion: its code, and the detail of its failure. */
async function failureOf(request: CompletionInit, headers: Headers | Record<string, string>) {
  const error = await errorOf(readCompletion(app, request, { headers }));
  const [detail] = error.findDetails(FailureSchema);
  return { code: error.code, message: error.rawMessage, ...detail };
}

describe.each(PROVIDERS)("Complete: %s", (provider) => {
  const model = modelOf(provider);

  test.for([true, false])(
    "replies with text and usage (stream: %s)",
    async (stream, { account }) => {
      const request = { ...completionOf("case: plain", model), stream };
      const reply = await readCompletion(app, request, account);
      expect(reply.kinds).toEqual(["started", "text", "finished"]);
      expect(reply).toMatchObject({
        text: REPLY,
        started: { provider, model },
        finished: {
          finishReason: "stop",
          usage: { inputTokens: tokensIn("case: plain"), outputTokens: tokensIn(REPLY) },
        },
      });
      await until("the usage row", async () => {
        const query = "select 1 from ai_usage where id = ? and outcome = 'completed'";
        return (await app.sql(query, [reply.started?.id])).length === 1;
      });
    },
  );

  test("accepts provider/model", async ({ account }) => {
    const request = completionOf("case: plain", `${provider}/${model}`);
    expect(await readCompletion(app, request, account)).toMatchObject({
      text: REPLY,
      started: { provider, model },
    });
  });

  test.for([true, false])(
    "ends with finish reason length at the maximum number of tokens (stream: %s)",
    async (stream, { account }) => {
      const request = { ...completionOf("case: at-maximum", model), stream };
      const { finished } = await readCompletion(app, request, account);
      expect(finished?.finishReason).toBe("length");
    },
  );

  test("fails before the first event if the provider fails, and names the failure", async ({
    account: { headers },
  }) => {
    for (const [name, failure] of [
      ["invalid", ProviderFailure.REJECTED],
      ["rate-limited", ProviderFailure.RATE_LIMITED],
      ["overloaded", ProviderFailure.OVERLOADED],
      ["bad-key", ProviderFailure.ACCOUNT_REFUSED],
    ] as const) {
      const found = await failureOf(completionOf(`case: ${name}`, model), headers);
      expect(found, name).toMatchObject({
        code: Code.Internal,
        reason: Reason.PROVIDER_ERROR,
        providerFailure: failure,
      });
    }
  });

  test("has no end event after a failure in the middle", async ({ account: { headers } }) => {
    const kinds: (string | undefined)[] = [];
    const read = async () => {
      const request = { ...completionOf("case: reset-midway", model), stream: true };
      for await (const { event } of app.grpc(AIService).complete(request, { headers }))
        kinds.push(event.case);
    };
    expect((await errorOf(read())).code).toBe(Code.Internal);
    expect(new Set(kinds)).toEqual(new Set(["started", "text"]));
  });

  test("ends with content_filter if a filter interrupts a stream, and fails if the reply is not streamed", async ({
    account,
  }) => {
    const request = completionOf("case: blocked", model);
    const cut = await readCompletion(app, { ...request, stream: true }, account);
    expect(cut).toMatchObject({ text: PREFIX, finished: { finishReason: "content_filter" } });
    expect(await failureOf(request, account.headers)).toMatchObject({
      providerFailure: ProviderFailure.BLOCKED,
    });
  });

  test("accepts system text and several turns", async ({ account }) => {
    const messages = [
      textMessage("system", "Be brief."),
      textMessage("user", "Hello."),
      textMessage("assistant", "Hi."),
      textMessage("user", "case: plain"),
    ];
    expect(await readCompletion(app, { model, messages }, account)).toMatchObject({ text: REPLY });
  });
});

test("Complete: unknown and ambiguous model names are not found", async ({
  account: { headers },
}) => {
  for (const model of ["model-z", "provider-b/model-a-1", "provider-z/model-a-1", "model"])
    expect(await failureOf(completionOf("Hello.", model), headers)).toMatchObject({
      code: Code.NotFound,
      reason: Reason.NOT_FOUND,
    });
});

test("Complete: a header lists the fields without effect, including those of the caller", async ({
  account: { headers },
}) => {
  const namesOf = async (fields: Partial<CompletionInit>, model: string) => {
    let names: string | null = "";
    const onHeader = (header: Headers) => {
      names = header.get("x-ai-ignored");
    };
    const request = { ...completionOf("case: plain", model), ...fields } as CompletionInit;
    await readCompletion(app, request, { headers, onHeader });
    return names;
  };
  const tuned = { temperature: 1, topP: 0.5, frequencyPenalty: 1, presencePenalty: 1, seed: 7n };
  expect(await namesOf({}, "model-a-1")).toBeNull();
  expect(await namesOf({ ignored: ["user", "metadata"] }, "model-a-1")).toBe("user, metadata");
  expect(await namesOf({ ...tuned, ignored: ["user", "seed"] }, "model-b-1")).toBe(
    "user, seed, temperature, top_p, frequency_penalty, presence_penalty",
  );
  const toolless = { toolChoice: { mode: "auto", name: "" }, parallelToolCalls: false };
  for (const model of PROVIDERS.map(modelOf))
    expect(await namesOf(toolless, model)).toBe("tool_choice, parallel_tool_calls");
});
