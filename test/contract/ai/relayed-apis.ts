// The APIs whose requests and replies are passed on.

import { KEY } from "../../../scripts/simulators/simulator.ts";

/** Each foreign API with the provider that has it. */
export const RELAYED_APIS = [
  {
    path: "/v1/messages",
    provider: 1,
    model: "model-b-1",
    upstream: "claude-sonnet-5-5",
    field: "max_tokens",
    bodyOf: (content: string, model = "model-b-1") => ({
      ...{ model, max_tokens: 1_000 },
      messages: [{ role: "user", content }],
    }),
    headers: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
    last: "event: message_stop",
    statuses: { overloaded: 529, invalid: 400, "rate-limited": 429, "bad-key": 500 },
  },
  {
    path: "/v1/responses",
    provider: 0,
    model: "model-a-1",
    upstream: "gpt-6.1-sol",
    field: "max_output_tokens",
    bodyOf: (input: string, model = "model-a-1") => ({ model, input, store: false }),
    headers: { authorization: `Bearer ${KEY}` },
    last: "event: response.completed",
    statuses: { overloaded: 503, invalid: 400, "rate-limited": 429, "bad-key": 500 },
  },
] as const;
export type RelayedApi = (typeof RELAYED_APIS)[number];
