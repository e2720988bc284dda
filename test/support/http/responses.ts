// Expected responses: errors, violations, users, sessions.

import { expect } from "vitest";

/** A refused request, as `toMatchObject` takes it. */
export const refusal = (status: number, code: string) => ({ status, body: { code } });

/** A request that is rejected because of these fields. */
export const invalid = (...fields: string[]) => ({
  status: 400,
  body: { code: "VALIDATION_FAILED", violations: fields.map((field) => ({ field })) },
});

/** The invalid fields of a rejected request, each once, in order. */
export const fieldsIn = ({ body }: { body: { violations: { field: string }[] } }): string[] =>
  [...new Set(body.violations.map(({ field }) => field))].sort();

/** Values of responses that a test does not know. */
export const TEXT: string = expect.any(String);
export const TIME: string = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

/** A new user in lists and responses of administrators. */
export const userShape = ({ id, email, name }: { id: string; email: string; name: string }) => {
  const unset = { emailVerified: false, mfaEnabled: false, locked: false };
  return { id, email, name, role: "user", ...unset, createdAt: TIME, updatedAt: TIME };
};

/** An open session in the lists of a user and of administrators. */
export const sessionShape = (changes: { current: boolean; device?: string; ip?: string }) => ({
  id: expect.stringMatching(/^[0-9a-f-]{36}$/),
  method: TEXT,
  device: TEXT,
  ip: expect.stringMatching(/^10\./),
  createdAt: TIME,
  lastActive: TIME,
  ...changes,
});
