import { describe, expect, test } from "vitest";
import { PROVIDERS } from "../../support/ai/calls.ts";
import { type Json, NESTED, SAMPLES } from "../../support/ai/openai-fields.ts";
import { startSuiteApp } from "../../support/app.ts";

/** A separate app: what its providers have received is compared. */
const app = await startSuiteApp({ env: { AI_RETRIES: "0", RATE_LIMITS: "off" } });
const PATH = "/v1/chat/completions";
/**
 * The provider whose models require the signatures of their own calls, which no other provider has.
 */
const GOOGLE = "provider-c";
const TOOL = { type: "function", function: { name: "f", parameters: { type: "object" } } };

describe.each(PROVIDERS)(
  "POST /v1/chat/completions: no field is lost on the way to %s",
  async (id) => {
    const account = await app.signIn();
    const provider = app.providers[PROVIDERS.indexOf(id)];
    const base = {
      model: `model-${id.at(-1)}-1`,
      messages: [{ role: "user", content: "Hello!" }],
      tools: [TOOL],
    };

    const signed = (request: Json) =>
      JSON.stringify(request, (name, value) =>
        name === "extra_content" && id !== GOOGLE ? undefined : value,
      );

    /** What becomes of a request: its refusal, or all that the provider and the client got. */
    async function outcomeOf(request: Json) {
      const { status, headers, text, body } = await account.post(PATH, signed(request));
      const { error } = body;
      if (status !== 200) return { refused: `${status} ${error.code} ${error.message}`, error };
      const received = provider?.requests.at(-1);
      const answered = text.replace(/"(?:id|created)":[^,]+,/g, "");
      return {
        ignored: headers.get("x-ai-ignored")?.split(", ") ?? [],
        seen: JSON.stringify([received?.path, received?.body, answered]),
      };
    }

    /** Whether a field is carried, or refused or ignored by name. */
    async function fateOf(field: string, without: Json, request: Json): Promise<string> {
      const { refused, error, ignored, seen } = await outcomeOf(request);
      if (refused !== undefined) {
        const isNamed = /^(?:unsupported|invalid)_/.test(error.code) && error.param;
        return isNamed ? "refused" : refused;
      }
      if (ignored?.some((name) => name.split(".").includes(field))) return "ignored";
      return (await outcomeOf(without)).seen === seen ? "lost" : "carried";
    }

    const FATES = ["carried", "refused", "ignored"];

    test.each(Object.entries(SAMPLES))("%s", async (field, value) => {
      const sample = field === "model" ? `${id}/${base.model.replace(/1$/, "2")}` : value;
      const without = field === "stream_options" ? { ...base, stream: true } : base;
      expect(FATES).toContain(await fateOf(field, without, { ...without, [field]: sample }));
    });

    test.each(Object.entries(NESTED))("%s", async (_name, { wrap, samples }) => {
      const without = { ...base, ...wrap({}) };
      const { refused, error } = await outcomeOf(without);
      if (refused !== undefined) return expect(error.param, refused).toMatch(/\.(?:type|role)$/); // as a whole
      for (const [field, value] of Object.entries(samples)) {
        if (field === "type" || field === "role") continue;
        const request = { ...base, ...wrap({ [field]: value }) };
        expect(FATES, field).toContain(await fateOf(field, without, request));
      }
    });
  },
);
