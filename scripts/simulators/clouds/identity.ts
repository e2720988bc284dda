import { randomUUID } from "node:crypto";
import http, { type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

type Answer = { status: number; body: object | string };

/** Credentials of AWS. */
export type AwsKeys = { accessKeyId: string; secretAccessKey: string; sessionToken?: string };

/** Keys that never expire, as of a user. */
export const STATIC_KEYS: AwsKeys = {
  accessKeyId: "AKIASIMULATEDSTATIC0",
  secretAccessKey: "simulated-secret/of+a+user",
};

type Answering = (request: IncomingMessage) => Answer;

/** Listens on the loopback interface. */
async function listen(answer: Answering) {
  const server = http.createServer((request, response) => {
    const { status, body } = answer(request);
    const isText = typeof body === "string";
    response.writeHead(status, {
      "content-type": isText ? "text/plain" : "application/json",
      "metadata-flavor": "Google",
    });
    response.end(isText ? body : JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, host: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const urlOf = ({ url = "/" }: IncomingMessage) => new URL(url, "http://identity");

/** The machines that are running, by the client id of their identity at Azure. */
const azureMachines = new Map<string | null, Answering>();
let azureHost: Promise<string> | undefined;

/**
 * The host of Azure's endpoint, which is one for all machines: Azure's library keeps the first
 * address that it has found for as long as its process runs.
 */
function startAzureEndpoint(): Promise<string> {
  azureHost ??= (async () => {
    const { server, host } = await listen((request) => {
      const answer = azureMachines.get(urlOf(request).searchParams.get("client_id"));
      return answer?.(request) ?? { status: 404, body: {} };
    });
    server.on("connection", (socket) => socket.unref()).unref(); // nothing closes it
    return host;
  })();
  return azureHost;
}

/** Where the credentials of a process in each cloud come from. */
export type CloudIdentity = Awaited<ReturnType<typeof startCloudIdentity>>;

/**
 * Starts the servers on which clouds hand out the credentials of a machine: Google's metadata
 * server, Azure's endpoint of managed identities and AWS's endpoint of container credentials.
 * @param lifetimeSeconds how long credentials are said to be valid
 */
export async function startCloudIdentity({ lifetimeSeconds = 3_600 } = {}) {
  /** When each token ends, by `performance.now()`. */
  const tokens = new Map<string, number>();
  const awsKeys = new Map<string, AwsKeys>([[STATIC_KEYS.accessKeyId, STATIC_KEYS]]);
  let issued = 0;
  let isAway = false;
  const clientId = randomUUID();
  const issue = (): string => {
    const token = `simulated-token-${++issued}`;
    tokens.set(token, performance.now() + lifetimeSeconds * 1000);
    return token;
  };

  const google = ({ headers }: IncomingMessage, path: string): Answer => {
    if (headers["metadata-flavor"] !== "Google") return { status: 403, body: "Forbidden" };
    const isToken = path.endsWith("/service-accounts/default/token");
    const token = { expires_in: lifetimeSeconds, token_type: "Bearer" };
    if (isToken) return { status: 200, body: { access_token: issue(), ...token } };
    return {
      status: 200,
      body: path.endsWith("/universe-domain") ? "googleapis.com" : "simulated",
    };
  };
  const azure = ({ headers }: IncomingMessage): Answer => {
    if (headers["x-identity-header"] !== "simulated") return { status: 401, body: {} };
    const ends = Math.floor(Date.now() / 1000) + lifetimeSeconds;
    const token = { access_token: issue(), token_type: "Bearer", expires_on: String(ends) };
    return { status: 200, body: { ...token, resource: "https://cognitiveservices.azure.com" } };
  };
  const aws = (): Answer => {
    const sessionToken = issue();
    const accessKeyId = `ASIASIMULATED${String(issued).padStart(7, "0")}`;
    const secretAccessKey = `simulated-secret-of-${sessionToken}`;
    awsKeys.set(accessKeyId, { accessKeyId, secretAccessKey, sessionToken });
    const ends = new Date(Date.now() + lifetimeSeconds * 1000).toISOString();
    const keys = { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey };
    return { status: 200, body: { ...keys, Token: sessionToken, Expiration: ends } };
  };

  function answer(request: IncomingMessage): Answer {
    const { pathname } = urlOf(request);
    if (isAway) return { status: 503, body: {} };
    if (pathname.startsWith("/computeMetadata/")) return google(request, pathname);
    if (pathname === "/msi/token") return azure(request);
    return pathname === "/aws/credentials" ? aws() : { status: 404, body: {} };
  }

  const { server, host } = await listen(answer);
  azureMachines.set(clientId, answer);
  const endpoint = `http://${await startAzureEndpoint()}/msi/token`;
  const isValid = (token: string | undefined) =>
    token !== undefined && (tokens.get(token) ?? 0) > performance.now();
  return {
    /** Variables that make the libraries of each cloud use these credentials. */
    env: {
      azure: {
        IDENTITY_ENDPOINT: endpoint,
        IDENTITY_HEADER: "simulated",
        AZURE_TOKEN_CREDENTIALS: "ManagedIdentityCredential",
        AZURE_CLIENT_ID: clientId, // Azure's library keeps tokens by it as long as the process runs
      },
      bedrock: { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://${host}/aws/credentials` },
      vertex: { GCE_METADATA_HOST: host, METADATA_SERVER_DETECTION: "assume-present" },
    },
    /** How many tokens it has handed out. */
    issued: () => issued,
    /** Whether a token is one of those and has neither expired nor been revoked. */
    isValid,
    /** The keys of AWS with this id, if they are valid. */
    awsKeysOf(accessKeyId: string): AwsKeys | undefined {
      const keys = awsKeys.get(accessKeyId);
      return keys?.sessionToken === undefined || isValid(keys.sessionToken) ? keys : undefined;
    },
    /** Makes all tokens so far invalid, without a word to their owners. */
    revoke: () => tokens.clear(),
    /** From now on, or no longer, it answers with errors. */
    setAway(value: boolean): void {
      isAway = value;
    },
    close: () =>
      new Promise<void>((resolve) => {
        azureMachines.delete(clientId);
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
