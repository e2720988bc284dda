import { expect, test } from "vitest";
import { otpauthUri } from "../../../services/mfa/second-factor.ts";

/** Names of installations, and what authenticator apps are to show. */
const names = [
  { mfaIssuer: "Gatehouse", issuer: "Gatehouse" },
  { mfaIssuer: "Söhne & Co: 50% + Bank", issuer: "Söhne & Co 50% + Bank" },
  { mfaIssuer: "Acme::Auth", issuer: "Acme Auth" },
  { mfaIssuer: "a/b?c=d#e", issuer: "a/b?c=d#e" },
  { mfaIssuer: "100%25", issuer: "100%25" },
  { mfaIssuer: "銀行 🏦", issuer: "銀行 🏦" },
  { mfaIssuer: ":", issuer: "account" },
];

test.each(names)(
  "otpauth URI: the label of $mfaIssuer has one colon, and issuer and account as they read",
  async ({ mfaIssuer, issuer }) => {
    const account = "ann+x@bücher.example";
    const uri = new URL(await otpauthUri({ mfaIssuer }, account, "JBSWY3DPEHPK3PXP"));
    expect([uri.protocol, uri.host]).toEqual(["otpauth:", "totp"]);
    const label = decodeURIComponent(uri.pathname.slice(1));
    expect(label.split(":")).toEqual([issuer, account]);
    expect(uri.pathname).toMatch(/^\/[^/?#&+ ]+$/);
    expect(uri.search).not.toContain("+");
    expect(Object.fromEntries(uri.searchParams)).toMatchObject({
      issuer,
      secret: "JBSWY3DPEHPK3PXP",
    });
  },
);
