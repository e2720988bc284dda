import { defineEntity, p } from "@mikro-orm/core";

const table = defineEntity({
  name: "SigningKey",
  tableName: "signing_keys",
  properties: {
    kid: p.string().primary(),
    publicKey: p.string(), // base64url, as in a JWK's `x`
    privateKey: p.string().hidden(), // encrypted
    createdAt: p.datetime(),
    activeAt: p.datetime(), // signs from then on, until the next key's time
  },
});

/** An Ed25519 key pair that tokens are signed with. */
export class SigningKey extends table.class {}
table.setClass(SigningKey);
