import type {
  Api,
  Passkey,
  PasskeyCredential,
  PasskeyOptions,
  VerifyPasskeyResponse,
} from "./api.ts";
import { GatehouseError } from "./errors.ts";

/** Settings of a sign-in with a passkey. */
export type PasskeySignIn = {
  /** The temporary token of a login that waits for its second factor. */
  tempToken?: string | undefined;
  /** Offers passkeys in the autofill of a field with `autocomplete="username webauthn"`. */
  conditional?: boolean | undefined;
  signal?: AbortSignal | undefined;
};

/** Passkeys in a browser: what WebAuthn needs around the routes. */
export type Passkeys = ReturnType<typeof createPasskeys>;

/** The parts of WebAuthn that are used here. Some are missing in browsers older than two years. */
type WebAuthn = {
  parseCreationOptionsFromJSON?(options: object): object;
  parseRequestOptionsFromJSON?(options: object): object;
  isConditionalMediationAvailable?(): Promise<boolean>;
  signalUnknownCredential?(options: object): Promise<void>;
  signalAllAcceptedCredentials?(options: object): Promise<void>;
};
type Container = Record<"create" | "get", (options: object) => Promise<unknown>>;
type Page = { PublicKeyCredential?: WebAuthn; navigator?: { credentials?: Container } };
type Serializable = { toJSON(): PasskeyCredential };

const webAuthn = (): WebAuthn => (globalThis as Page).PublicKeyCredential ?? {};

/** The credentials of the browser. */
function credentials(): Container {
  const container = (globalThis as Page).navigator?.credentials;
  if (!container || !webAuthn().parseRequestOptionsFromJSON)
    throw new Error("This browser does not support passkeys.");
  return container;
}

/**
 * Creates the helpers.
 * @param api the routes
 * @param userId id of the user who is signed in
 */
export function createPasskeys(api: Api, userId: () => string | undefined) {
  /** Whether this browser can use passkeys. If not, offer other ways to sign in. */
  const isSupported = (): boolean => webAuthn().parseRequestOptionsFromJSON !== undefined;

  async function use(options: PasskeyOptions, settings: PasskeySignIn): Promise<PasskeyCredential> {
    const used = await credentials().get({
      publicKey: webAuthn().parseRequestOptionsFromJSON?.(options),
      mediation: settings.conditional ? "conditional" : "optional",
      ...(settings.signal && { signal: settings.signal }),
    });
    return (used as Serializable).toJSON();
  }

  /** Lets the browser forget a passkey that the service does not know. */
  async function forgetUnknown(error: unknown, { rpId }: PasskeyOptions, credentialId: string) {
    if (!(error instanceof GatehouseError) || error.code !== "PASSKEY_UNKNOWN") return;
    await webAuthn()
      .signalUnknownCredential?.({ rpId, credentialId })
      .catch(() => {});
  }

  return {
    isSupported,
    /** Whether passkeys can be offered in the autofill of a field. */
    isConditionalAvailable: async (): Promise<boolean> =>
      isSupported() && (await webAuthn().isConditionalMediationAvailable?.()) === true,

    /** Signs in with a passkey, or completes a login with it. */
    async signIn(settings: PasskeySignIn = {}): Promise<VerifyPasskeyResponse> {
      const { tempToken, signal } = settings;
      const { options } = await api.auth.startPasskey({ tempToken }, { signal });
      const credential = await use(options, settings);
      try {
        return await api.auth.verifyPasskey({ credential, tempToken }, { signal });
      } catch (error) {
        await forgetUnknown(error, options, credential.id);
        throw error;
      }
    },

    /** Adds a passkey of this device, or of another one that the browser reaches. */
    async register(name?: string): Promise<Passkey> {
      const { options } = await api.user.createPasskeyOptions({ purpose: "register" });
      const made = await credentials().create({
        publicKey: webAuthn().parseCreationOptionsFromJSON?.(options),
      });
      const credential = (made as Serializable).toJSON();
      return (await api.user.createPasskey({ credential, name })).passkey;
    },

    /** Confirms the session with a passkey. */
    async confirm(): Promise<void> {
      const { options } = await api.user.createPasskeyOptions({ purpose: "confirm" });
      await api.auth.confirm({ passkey: await use(options, {}) });
    },

    /** Removes a passkey, and lets the browser forget it. */
    async remove(id: string): Promise<void> {
      const { acceptedIds } = await api.user.deletePasskey(id);
      const owner = userId();
      if (owner === undefined || !webAuthn().signalAllAcceptedCredentials) return;
      const { options } = await api.user.createPasskeyOptions({ purpose: "confirm" });
      const accepted = { rpId: options.rpId, userId: handleOf(owner) };
      await webAuthn()
        .signalAllAcceptedCredentials?.({ ...accepted, allAcceptedCredentialIds: acceptedIds })
        .catch(() => {});
    },
  };
}

/** The user handle of a user id: its 16 bytes in base64url. */
function handleOf(userId: string): string {
  const bytes = (userId.replaceAll("-", "").match(/../g) ?? []).map((hex) =>
    Number.parseInt(hex, 16),
  );
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
