import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Config } from "../config/config.ts";

/** Paths of a certificate, its key, and the authority of the other side's certificate. */
export type TlsFiles = Partial<Config["tls"]>;

/**
 * Reads the TLS files. Clients must present a certificate of the authority.
 * @throws Error for operators
 */
export function readTlsFiles({ cert, key, ca }: TlsFiles) {
  try {
    const own = cert &&
      key && { cert: readNamed("GRPC_TLS_CERT", cert), key: readNamed("GRPC_TLS_KEY", key) };
    const files = { ...own, ...(ca && { ca: readNamed("GRPC_TLS_CA", ca), requestCert: true }) };
    createSecureContext(files); // throws unless they are a certificate and its key
    if (files.ca) new X509Certificate(files.ca); // a context takes any text for an authority
    return files;
  } catch (error) {
    throw new Error(
      `GRPC_TLS_CERT, GRPC_TLS_KEY or GRPC_TLS_CA can't be used: ${(error as Error).message}`,
    );
  }
}

/**
 * Reads the file that a variable names. The error does not quote the path: it may be a key in the
 * place of one.
 */
function readNamed(variable: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(
      `${variable} names no file that can be read (${(error as NodeJS.ErrnoException).code})`,
    );
  }
}
