import { ProviderError } from "../errors.ts";
import type { CloudRequest, CloudResponse } from "./cloud.ts";

/** Shortest time between two replacements of credentials that a cloud refuses, in ms. */
const RENEWAL_MS = 5_000;

/** Credentials of this process in a cloud, such as a role or a service account. */
type Identity<T> = {
  /** Loaded at the first call. Their library renews them before they expire. */
  get(): Promise<T>;
  /**
   * Replaces credentials that the cloud has refused, as it does with a token that was revoked.
   * @returns whether there are others now
   */
  renew(refused: T): Promise<boolean>;
};

/** @param load loads the library, and the credentials as far as it does that beforehand */
export function createIdentity<T>(load: () => Promise<T>): Identity<T> {
  let current: Promise<T> | undefined;
  let renewedAtMs = Number.NEGATIVE_INFINITY;
  const get = (): Promise<T> => {
    if (current) return current;
    const loading = load();
    current = loading;
    loading.catch(() => {
      if (current === loading) current = undefined; // the next call tries again
    });
    return loading;
  };
  return {
    get,
    async renew(refused) {
      if ((await get()) !== refused) return true; // another call has replaced them
      const nowMs = performance.now();
      if (nowMs - renewedAtMs < RENEWAL_MS) return false;
      renewedAtMs = nowMs;
      current = undefined;
      return true;
    },
  };
}

/** Sends a request with credentials of this process. */
type SendAs<T> = (
  request: CloudRequest,
  credentials: T,
  signal: AbortSignal,
) => Promise<CloudResponse>;

/**
 * Sends a request with the credentials of an identity, and once more with new ones if they are
 * refused. A refused request has not been read, so it costs nothing.
 * @param refusals statuses with which the cloud refuses credentials
 */
export async function postAs<T>(
  identity: Identity<T>,
  send: SendAs<T>,
  request: CloudRequest,
  signal: AbortSignal,
  refusals: readonly number[] = [401],
): Promise<CloudResponse> {
  const credentials = await whileWanted(identity.get(), signal);
  const response = await send(request, credentials, signal);
  const isRefused = refusals.includes(response.message.statusCode ?? 0);
  if (!isRefused || !(await whileWanted(identity.renew(credentials), signal))) return response;
  response.message.destroy();
  return send(request, await whileWanted(identity.get(), signal), signal);
}

/**
 * Waits for the credentials of a library, which may not know of abort signals.
 * @throws ProviderError if there are none, the reason of the signal once that has fired
 */
export async function whileWanted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort);
  try {
    return await Promise.race([work, aborted.promise]);
  } catch (thrown) {
    signal.throwIfAborted();
    throw credentialsError(thrown);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Codes of network errors: the credential service was not reached. */
const NETWORK = /^(?:E[A-Z]+|UND_ERR_\w+)$/;
const WORD = /^\w{1,64}$/;

/**
 * Why a library has no credentials. Its message is not kept, because it may quote the response of
 * the credential service.
 */
function credentialsError(thrown: unknown): ProviderError {
  const causes = causesOf(thrown);
  const network = causes.map(({ code }) => code).find((code) => NETWORK.test(String(code)));
  if (network !== undefined) return noCredentials(String(network));
  const status = causes.map(statusOf).find((each) => each >= 500 || each === 429);
  if (status !== undefined) return noCredentials(`HTTP ${status} for credentials`);
  const names = causes.map(({ code, name }) => String(code ?? name));
  const name = names.findLast((each) => WORD.test(each));
  return new ProviderError("refused the key", { detail: `no credentials: ${name ?? "unknown"}` });
}

/** Credentials that may be available later. Nothing was sent to the model without them. */
const noCredentials = (detail: string) =>
  new ProviderError("unreachable", { retryable: true, isUnsent: true, detail });

/** An error of a library. Each has its own fields. */
type Thrown = {
  name?: unknown;
  code?: unknown;
  status?: unknown;
  statusCode?: unknown;
  cause?: unknown;
  errors?: unknown;
};

const statusOf = ({ status, statusCode }: Thrown) => Number(status ?? statusCode);

/** Maximum number of errors to examine. */
const MAX_CAUSES = 20;

/** An error, what has caused it, and what has failed before it, the outermost first. */
function causesOf(thrown: unknown): Thrown[] {
  const found = new Set<Thrown>();
  const open: unknown[] = [thrown];
  while (open.length > 0 && found.size < MAX_CAUSES) {
    const each = open.shift();
    if (!(each instanceof Error) || found.has(each)) continue;
    found.add(each);
    const { cause, errors } = each as Thrown;
    open.push(cause, ...(Array.isArray(errors) ? errors : []));
  }
  return [...found];
}
