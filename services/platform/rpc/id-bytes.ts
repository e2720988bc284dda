/** Length of an id in bytes. */
export const ID_BYTES = 16;

/** Encodes the first 16 bytes as an id, whether or not they are a UUID of any version. */
export const idOfBytes = (bytes: Buffer): string =>
  bytes.toString("hex", 0, ID_BYTES).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

/** The bytes of an id, whether or not it is a UUID of any version. */
export const bytesOfId = (id: string): Buffer => Buffer.from(id.replaceAll("-", ""), "hex");
