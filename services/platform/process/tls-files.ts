import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Config } from "../config/config.ts";

/**
 * TLS settings between our own processes and with clients of the gRPC port: only forward secrecy
 * and authenticated encryption (RFC 9325 section 4.2). TLS 1.3 has nothing else, and HTTP/2 forbids
 * the other suites of TLS 1.2 (RFC 9113 appendix A).
 */
const TLS_LIMITS = {
  minVersion: "TLSv1.2",
  ciphers: [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "ECDHE+AESGCM",
    "ECDHE+CHACHA20",
  ].join(":"),
  honorCipherOrder: true,
} as const;

/** Paths of a certificate, its key, and the CA that signs the other side's certificate. */
export type TlsFiles = Partial<Config["tls"]>;

/**
 * Reads the TLS files. With a CA, clients must present a certificate signed by it.
 * @throws Error for operators
 */
export function readTlsFiles({ cert, key, ca }: TlsFiles) {
  try {
    const own = cert &&
      key && { cert: readNamed("GRPC_TLS_CERT", cert), key: readNamed("GRPC_TLS_KEY", key) };
    const authority = ca && { ca: readNamed("GRPC_TLS_CA", ca), requestCert: true };
    const files = { ...TLS_LIMITS, ...own, ...authority };
    createSecureContext(files); // throws unless certificate and key are valid and match
    if (files.ca) new X509Certificate(files.ca); // a context accepts any text as a CA
    return files;
  } catch (error) {
    throw new Error(
      `GRPC_TLS_CERT, GRPC_TLS_KEY or GRPC_TLS_CA can't be used: ${(error as Error).message}`,
    );
  }
}

/**
 * Reads the file that a variable names. The error does not quote the path, in case the value is a
 * key instead of a path.
 */
function readNamed(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(
      `${variable} does not name a readable file (${(error as NodeJS.ErrnoException).code})`,
    );
  }
}
