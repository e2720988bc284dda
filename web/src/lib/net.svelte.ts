/** Time after which a request shows progress, in ms. */
const SLOW_MS = 300;
const MAX_ATTEMPTS = 4;
/** Maximum delay before a retry, in seconds. */
const MAX_WAIT = 10;

/** What the user is told about the connection. */
export const net = $state({ isSlow: false, isOffline: !navigator.onLine, isRetrying: false });

let open = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

addEventListener("offline", () => {
  net.isOffline = true;
});
addEventListener("online", () => {
  net.isOffline = false;
});

/** Shows progress while work takes long. */
export async function visibly<T>(work: () => Promise<T>): Promise<T> {
  open += 1;
  timer ??= setTimeout(() => {
    net.isSlow = true;
  }, SLOW_MS);
  try {
    return await work();
  } finally {
    open -= 1;
    if (open === 0) {
      clearTimeout(timer);
      timer = undefined;
      net.isSlow = false;
    }
  }
}

/**
 * A `fetch` that shows progress and connection loss, and retries requests if the service was too
 * busy.
 */
export const fetchVisibly = (url: RequestInfo | URL, init?: RequestInit): Promise<Response> =>
  visibly(async () => {
    try {
      const response = await fetchPatiently(url, init);
      net.isOffline = false;
      return response;
    } catch (thrown) {
      if (!init?.signal?.aborted) net.isOffline = true;
      throw thrown;
    }
  });

async function fetchPatiently(url: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const isProbe = String(url).endsWith("/health"); // its 503 is a result
  try {
    for (let attempt = 1; ; attempt += 1) {
      const response = await fetch(url, init);
      if (response.status !== 503 || attempt === MAX_ATTEMPTS || isProbe) return response;
      if (await isProvidersFailure(response)) return response; // the service has already retried the call
      net.isRetrying = true;
      const seconds = Math.min(Number(response.headers.get("retry-after")) || 1, MAX_WAIT);
      await pause(seconds * 1000, init?.signal);
    }
  } finally {
    net.isRetrying = false;
  }
}

/** Whether an AI provider was too busy, as opposed to the service. */
async function isProvidersFailure(response: Response): Promise<boolean> {
  const { error } = await response
    .clone()
    .json()
    .catch(() => ({}));
  return String(error?.code).startsWith("provider_");
}

/** Waits, unless the signal aborts first. */
async function pause(ms: number, signal: AbortSignal | null | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      signal?.removeEventListener("abort", end);
      resolve();
    };
    setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
}
