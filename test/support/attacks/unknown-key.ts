import { randomUUID } from "node:crypto";

const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token that nobody has signed, with a key id that does not exist. */
export const unknownKeyToken = () =>
  `${base64({ alg: "EdDSA", kid: randomUUID() })}.${base64({ sub: randomUUID() })}.${"A".repeat(86)}`;
