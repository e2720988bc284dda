import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { AwsKeys } from "./identity.ts";

/** A request as it has arrived. */
export type SignedRequest = {
  method: string;
  /** Path and query. */
  url: string;
  headers: IncomingHttpHeaders;
  raw: Buffer;
};

/** Largest difference between the clock of a client and that of AWS, in ms. */
const SKEW_MS = 300_000;

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest("hex");
const hmac = (key: string | Buffer, text: string) =>
  createHmac("sha256", key).update(text).digest();
const encoded = (text: string) =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/**
 * Checks the signature of a request (AWS Signature Version 4).
 * @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 * @param keysOf the keys with an id
 */
export function isSigned(
  { method, url, headers, raw }: SignedRequest,
  { region, service }: { region: string; service: string },
  keysOf: (accessKeyId: string) => AwsKeys | undefined,
): boolean {
  const [, id = "", date = "", names = "", signature = ""] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/[^,]+, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? "",
    ) ?? [];
  const scope = `${date}/${region}/${service}/aws4_request`;
  const keys = keysOf(id);
  const time = String(headers["x-amz-date"]);
  if (!keys || !headers.authorization?.includes(`/${scope},`)) return false;
  if (headers["x-amz-security-token"] !== keys.sessionToken) return false;
  const at = Date.parse(
    time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"),
  );
  if (!(Math.abs(at - Date.now()) < SKEW_MS) || !time.startsWith(date)) return false;
  if (!names.split(";").includes("host")) return false;
  const { pathname, searchParams } = new URL(url, "http://aws");
  const request = [
    method,
    pathname.split("/").map(encoded).join("/"),
    [...searchParams]
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .sort()
      .join("&"),
    ...names.split(";").map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    names,
    sha256(raw),
  ].join("\n");
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(request)].join("\n");
  const signingKey = [region, service, "aws4_request"].reduce<Buffer>(
    hmac,
    hmac(`AWS4${keys.secretAccessKey}`, date),
  );
  return timingSafeEqual(hmac(signingKey, text), Buffer.from(signature, "hex"));
}
