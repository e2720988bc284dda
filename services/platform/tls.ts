import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContextOptions } from "node:tls";

/** Paths of a certificate, its key, and the authority of the other side's certificate. */
export type TlsFiles = Readonly<{ cert?: string | undefined; key?: string | undefined; ca?: string | undefined }>;

/** Reads the files of GRPC_TLS_CERT, GRPC_TLS_KEY and GRPC_TLS_CA. @throws Error for operators if one can't be used */
export function readTlsFiles({ cert, key, ca }: TlsFiles): Pick<SecureContextOptions, "cert" | "key" | "ca"> {
  try {
    const own = cert && key && { cert: readFileSync(cert), key: readFileSync(key) };
    const files = { ...own, ...(ca && { ca: readFileSync(ca) }) };
    createSecureContext(files); // throws unless they are a certificate and its key
    return files;
  } catch (error) {
    throw new Error(`GRPC_TLS_CERT, GRPC_TLS_KEY or GRPC_TLS_CA can't be used: ${(error as Error).message}`);
  }
}
