import { expect, test } from "vitest";
import { type Arrival, resolveArrival } from "../../../services/external/resolve.ts";

/** All of them are about a new identity, unless they say otherwise. */
const cases: [
  Arrival["account"],
  Arrival["address"],
  boolean,
  ReturnType<typeof resolveArrival>,
][] = [
  ["none", "none", false, "email-missing"],
  ["none", "unproven", false, "create"],
  ["none", "proven", false, "create"],
  ["verified", "unproven", false, "identity-token"],
  ["verified", "proven", false, "identity-token"],
  ["verified", "proven", true, "identity-token"],
  ["never-verified", "unproven", false, "identity-token"],
  ["never-verified", "unproven", true, "identity-token"],
  ["never-verified", "proven", false, "take-back"],
  ["never-verified", "proven", true, "attach"],
];

test.each(cases)("resolveArrival: account %s, address %s, known device %s: %s", (...row) => {
  const [account, address, isKnownDevice, arrived] = row;
  const arrival = { account, address, isKnownDevice };
  expect(resolveArrival({ ...arrival, isConnected: false })).toBe(arrived);
  expect(resolveArrival({ ...arrival, isConnected: true })).toBe("sign-in");
});
