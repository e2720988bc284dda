/** How your own service verifies an access token offline, with jose. */
import { createRemoteJWKSet, jwtVerify } from "jose";

const { GATEHOUSE_URL = "http://localhost:3000", ISSUER = GATEHOUSE_URL, TOKEN } = process.env;
const keys = createRemoteJWKSet(new URL("/.well-known/jwks.json", GATEHOUSE_URL)); // cached; asks again for a new key
const { payload } = await jwtVerify(TOKEN, keys, {
  issuer: ISSUER,
  audience: "gatehouse",
  algorithms: ["EdDSA"],
});
process.stdout.write(`${payload.sub}\n`);
