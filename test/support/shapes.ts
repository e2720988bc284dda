import { expect } from "vitest";

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
  device: TEXT,
  ip: expect.stringMatching(/^10\./),
  createdAt: TIME,
  lastActive: TIME,
  ...changes,
});
