import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { LimitKey, LimitSchema } from "../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { requestKeys } from "../../../services/platform/gate/rate-limiter.ts";
import { times } from "../../support/tally.ts";

const limit = create(LimitSchema, {
  bucket: "ai-chat",
  requests: 100,
  windowSeconds: 60,
  by: LimitKey.USER,
});
const keysOf = (apiKey?: { isService?: boolean; requestsPerMinute?: number }) =>
  requestKeys(
    [limit],
    {
      userId: "u",
      apiKey: apiKey && {
        keyId: "k",
        isService: apiKey.isService ?? false,
        requestsPerMinute: apiKey.requestsPerMinute,
      },
    },
    "10.0.0.1",
  );
const ofUser = { key: "ai-chat:{user:u}", max: 100, windowMs: 60_000 };
const ofKey = (max: number) => ({ key: "api-key:{user:u}k", max, windowMs: 60_000 });

test("Rate limits: a key of a person counts towards that person's limit, and towards its own if it has one", () => {
  expect(keysOf()).toEqual([ofUser]);
  expect(keysOf({})).toEqual([ofUser]);
  expect(keysOf({ requestsPerMinute: 5 })).toEqual([ofUser, ofKey(5)]);
});

test("Rate limits: a key of a service account counts only for itself, by default 600 a minute", () => {
  expect(keysOf({ isService: true })).toEqual([ofKey(600)]);
  expect(keysOf({ isService: true, requestsPerMinute: 5_000 })).toEqual([ofKey(5_000)]);
});

test("Rate limits: the counters of one request are on one node of a Redis cluster", () => {
  const tags = keysOf({ requestsPerMinute: 5 }).map(({ key }) => /\{.*?\}/.exec(key)?.[0]);
  expect(tags).toEqual(["{user:u}", "{user:u}"]);
});

test("Admission: a service account has its own limit of streams", () => {
  const admission = createAdmission({
    streamsPerUser: 2,
    streamsPerServiceAccount: 4,
    budgetBytes: 1e9,
  });
  const open = (userId: string, isService: boolean) => () =>
    admission.acquire("user-stream", { userId, isService });
  times(2, open("person", false));
  expect(open("person", false)).toThrow("Too many of your requests");
  times(4, open("service", true));
  expect(open("service", true)).toThrow("Too many of your requests");
});
