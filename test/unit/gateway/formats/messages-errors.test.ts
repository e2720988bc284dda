import { expect, test } from "vitest";
import { anthropicFormat } from "../../../../gateway/formats/messages-format.ts";
import { httpError } from "../../../../gateway/transcode/errors.ts";
import { ProviderFailure, Reason } from "../../../../gen/gatehouse/platform/v1/failure_pb.ts";

/** Whether Anthropic's clients repeat a request that has failed. */
const isRepeated = (reason: Reason, retryAfterSeconds?: number) => {
  const failed = httpError(reason, "Read me.", { retryAfterSeconds });
  return anthropicFormat.error(failed, true).headers["x-should-retry"] !== "false";
};

test.each([
  [5, true],
  [3_600, false],
  [undefined, false],
])(
  "Anthropic's errors: BUDGET_EXCEEDED for %s s is repeated only if that can help",
  (wait, repeats) => {
    expect(isRepeated(Reason.BUDGET_EXCEEDED, wait)).toBe(repeats);
  },
);

test("Anthropic's errors: a rate limit is repeated, and a permanent refusal is not", () => {
  expect(isRepeated(Reason.RATE_LIMITED, 3_600)).toBe(true);
  for (const reason of [Reason.MODEL_NOT_PRICED, Reason.NOT_FOUND, Reason.KEY_NOT_ALLOWED])
    expect(isRepeated(reason)).toBe(false);
});

test("Anthropic's errors: a provider that refuses the key of this server is not asked again", () => {
  const errorOf = (providerFailure: ProviderFailure) =>
    anthropicFormat.error(httpError(Reason.PROVIDER_ERROR, "No.", { providerFailure }), true);
  const refused = { status: 500, body: { type: "error", error: { type: "api_error" } } };
  const final = { headers: { "x-should-retry": "false" } };
  expect(errorOf(ProviderFailure.ACCOUNT_REFUSED)).toMatchObject({ ...refused, ...final });
  expect(errorOf(ProviderFailure.OTHER)).toMatchObject({ ...refused, headers: {} });
});
