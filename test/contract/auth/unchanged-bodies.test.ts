import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { testApp } from "../../support/app.ts";
import { useAsBefore } from "./previous-clients.ts";

const app = await testApp();

/** What the previous release, 0.1, has answered. */
const previous: { name: string; claims?: string[] }[] = JSON.parse(
  readFileSync(new URL("previous-answers.json", import.meta.url), "utf8"),
);

/**
 * Claims of access tokens that the previous release does not have, and what it does not say of a
 * user with TOTP.
 */
const NEW_CLAIMS = ["amr", "auth_time"];
const NEW_MEMBER = ',"mfaConfirmed":true';

test("Clients of the previous release get the same responses, byte for byte except for tokens, times, ids and messages", async () => {
  const epoch = () => Math.floor(app.clock.now().getTime() / 1000);
  const answers = await useAsBefore(() => app.httpClient(), epoch);
  for (const { claims } of answers)
    if (claims) expect(claims).toEqual(expect.arrayContaining(NEW_CLAIMS));
  const known = answers.map(({ claims, text, ...answer }) => ({
    ...answer,
    text: text.replace(NEW_MEMBER, ""),
    ...(claims && { claims: claims.filter((claim) => !NEW_CLAIMS.includes(claim)) }),
  }));
  expect(known).toEqual(previous);
});

test("POST /user/change-password: names a missing current password first", async () => {
  const { post } = await app.signIn();
  const { body } = await post("/user/change-password", {});
  expect(body.violations.map(({ field }: { field: string }) => field)[0]).toBe("currentPassword");
  expect(body.violations[0].message).toBe("must be 1 to 128 characters");
});
