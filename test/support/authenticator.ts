import {
  createHash,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign as signBytes,
} from "node:crypto";

/** Options of WebAuthn in JSON, as far as an authenticator reads them. */
type Options = {
  challenge: string;
  rpId?: string;
  rp?: { id: string };
  user?: { id: string };
};

/** What a dishonest or broken authenticator or browser does. */
export type Faults = {
  challenge?: string;
  origin?: string;
  rpId?: string;
  type?: string;
  crossOrigin?: boolean;
  /** Flags of the authenticator data (WebAuthn level 3, section 6.1). */
  flags?: number;
  counter?: number;
  userHandle?: string | undefined;
  /** The key that signs. */
  key?: KeyObject;
  attestationObject?: string;
};

/** The product does not offer ES384. */
export type Algorithm = "ES256" | "EdDSA" | "RS256" | "ES384";

const UP = 0x01;
const UV = 0x04;
const BE = 0x08;
const BS = 0x10;
const AT = 0x40;
export const FLAGS = { UP, UV, BE, BS };

const base64url = (bytes: Buffer | string) => Buffer.from(bytes).toString("base64url");
const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest();

type Cbor = number | string | Buffer | Map<Cbor, Cbor>;

/** Encodes as CBOR what credentials consist of (RFC 8949). */
function cbor(value: Cbor): Buffer {
  if (typeof value === "number") return value >= 0 ? cborHead(0, value) : cborHead(1, -1 - value);
  if (typeof value === "string")
    return Buffer.concat([cborHead(3, value.length), Buffer.from(value)]);
  if (value instanceof Buffer) return Buffer.concat([cborHead(2, value.length), value]);
  const entries = [...(value as Map<Cbor, Cbor>)].flatMap(([key, item]) => [cbor(key), cbor(item)]);
  return Buffer.concat([cborHead(5, entries.length / 2), ...entries]);
}

function cborHead(major: number, argument: number): Buffer {
  const type = major << 5;
  if (argument < 24) return Buffer.from([type | argument]);
  if (argument < 256) return Buffer.from([type | 24, argument]);
  return Buffer.from([type | 25, argument >> 8, argument & 0xff]);
}

const GENERATORS: Record<Algorithm, () => { publicKey: KeyObject; privateKey: KeyObject }> = {
  ES256: () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  EdDSA: () => generateKeyPairSync("ed25519"),
  RS256: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ES384: () => generateKeyPairSync("ec", { namedCurve: "P-384" }),
};

/** A public key as a COSE key (RFC 9053). */
function coseKey(algorithm: Algorithm, publicKey: KeyObject): Buffer {
  const jwk = publicKey.export({ format: "jwk" });
  const part = (name: "x" | "y" | "n" | "e") => Buffer.from(jwk[name] as string, "base64url");
  const members: Record<Algorithm, () => [Cbor, Cbor][]> = {
    ES256: () => [
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, part("x")],
      [-3, part("y")],
    ],
    ES384: () => [
      [1, 2],
      [3, -35],
      [-1, 2],
      [-2, part("x")],
      [-3, part("y")],
    ],
    EdDSA: () => [
      [1, 1],
      [3, -8],
      [-1, 6],
      [-2, part("x")],
    ],
    RS256: () => [
      [1, 3],
      [3, -257],
      [-1, part("n")],
      [-2, part("e")],
    ],
  };
  return cbor(new Map(members[algorithm]()));
}

/** A browser with an authenticator that holds one passkey, in software. */
export type Authenticator = ReturnType<typeof createAuthenticator>;

/** Creates an authenticator with a new key, at a page of an origin. */
export function createAuthenticator(
  origin = "http://gatehouse.test",
  algorithm: Algorithm = "ES256",
  { backedUp = false, idBytes = 32 } = {},
) {
  const { publicKey, privateKey } = GENERATORS[algorithm]();
  const id = randomBytes(idBytes);
  const usual = UP | UV | (backedUp ? BE | BS : 0);
  let counter = 0;
  let userHandle: string | undefined;

  const clientData = (type: string, { challenge }: Options, faults: Faults) =>
    base64url(
      JSON.stringify({
        type: faults.type ?? type,
        challenge: faults.challenge ?? challenge,
        origin: faults.origin ?? origin,
        crossOrigin: faults.crossOrigin ?? false,
      }),
    );

  function authenticatorData(
    rpId: string,
    flags: number,
    faults: Faults,
    attested = Buffer.alloc(0),
  ) {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(faults.counter ?? counter);
    const hash = sha256(faults.rpId ?? rpId);
    return Buffer.concat([hash, Buffer.from([faults.flags ?? flags]), count, attested]);
  }

  return {
    id: id.toString("base64url"),
    privateKey,
    /** Creates its passkey, as `navigator.credentials.create` does. */
    create(options: Options, faults: Faults = {}) {
      userHandle = options.user?.id;
      const length = Buffer.from([id.length >> 8, id.length & 0xff]);
      const attested = [Buffer.alloc(16), length, id, coseKey(algorithm, publicKey)];
      const flags = (faults.flags ?? usual) | AT;
      const data = authenticatorData(
        options.rp?.id as string,
        flags,
        { ...faults, flags },
        Buffer.concat(attested),
      );
      const attestation = new Map<Cbor, Cbor>([
        ["fmt", "none"],
        ["attStmt", new Map()],
        ["authData", data],
      ]);
      return {
        ...this.identity(),
        response: {
          clientDataJSON: clientData("webauthn.create", options, faults),
          attestationObject: faults.attestationObject ?? base64url(cbor(attestation)),
          transports: ["internal"],
        },
      };
    },
    /** Uses its passkey, as `navigator.credentials.get` does. */
    get(options: Options, faults: Faults = {}) {
      counter += 1;
      const clientDataJSON = clientData("webauthn.get", options, faults);
      const data = authenticatorData(options.rpId as string, usual, faults);
      const signed = Buffer.concat([data, sha256(Buffer.from(clientDataJSON, "base64url"))]);
      const digest = algorithm === "EdDSA" ? null : "sha256";
      return {
        ...this.identity(),
        response: {
          clientDataJSON,
          authenticatorData: base64url(data),
          signature: base64url(signBytes(digest, signed, faults.key ?? privateKey)),
          ...("userHandle" in faults ? { userHandle: faults.userHandle } : { userHandle }),
        },
      };
    },
    identity: () => ({
      id: id.toString("base64url"),
      rawId: id.toString("base64url"),
      type: "public-key",
      authenticatorAttachment: "platform",
      clientExtensionResults: {},
    }),
  };
}
