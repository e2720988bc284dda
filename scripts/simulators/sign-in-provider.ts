import { createHash, randomUUID } from "node:crypto";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { listenNear } from "./listen.ts";
import { CHOICE, choicePage, formPage } from "./sign-in-pages.ts";

/** The only client of a simulated provider. */
export const CLIENT = { id: "gatehouse-client", secret: "gatehouse-secret" };

/** An account at a simulated provider: claims of its ID token, and for GitHub its addresses. */
export type SimulatedAccount = {
  sub: string;
  email?: string | undefined;
  email_verified?: boolean | string;
  name?: string | undefined;
  [claim: string]: unknown;
};

/** What Apple posts next to the code when an account signs in to a client for the first time. */
type AppleUser = { name: { firstName: string; lastName: string }; email?: string };

/** What a provider does wrong. */
export type ProviderFaults = {
  /** Changes the claims of the next ID tokens. */
  claims?: (claims: JWTPayload) => JWTPayload;
  /** Signs them with `none`, a strange key, or not with the one that it names. */
  signature?: "none" | "strange" | "hs256";
  /** The id of the key that signs them, according to their header. */
  kid?: string;
  /** Replaces an answer of an endpoint. */
  answer?: Partial<Record<Endpoint, (response: ServerResponse) => void>>;
  /** Leaves PKCE unchecked, so that only the client is tested. */
  ignoresPkce?: boolean;
};

export type Endpoint = "discovery" | "keys" | "token" | "user" | "emails";

/** A code that was issued, and what it was issued for. */
type Grant = { account: SimulatedAccount; parameters: URLSearchParams };

const LIFETIME_SECONDS = 300;

/**
 * Starts a sign-in provider on the loopback interface: OpenID Connect as Google, Microsoft and
 * Apple have it, and the API of GitHub.
 * @param now the time that it believes in
 * @param isSecret whether a client secret is right; Apple's is a JWT
 * @param announcesIss whether its answers name their issuer (RFC 9207)
 * @param people whom its page offers; without them a visitor signs in at once, see `visitedBy`
 * @param port a port that is preferred
 */
export async function startSignInProvider({
  now = () => new Date(),
  announcesIss = true,
  isSecret = (secret) => secret === CLIENT.secret,
  people = [],
  port = 0,
}: {
  now?: () => Date;
  announcesIss?: boolean;
  isSecret?: (secret: string) => boolean | Promise<boolean>;
  people?: readonly SimulatedAccount[];
  port?: number | undefined;
} = {}) {
  const keys = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: "one", alg: "RS256", use: "sig" };
  const grants = new Map<string, Grant>();
  const tokens = new Map<string, SimulatedAccount>();
  const requests: {
    endpoint: Endpoint;
    body: URLSearchParams;
    headers: http.IncomingHttpHeaders;
  }[] = [];
  let faults: ProviderFaults = {};
  let issuer = "";
  let visitor: SimulatedAccount | undefined;
  /** Accounts that have told their name, which Apple does once. */
  const introduced = new Set<string>();

  function authorize(url: string, account: SimulatedAccount): Record<string, string> {
    const { searchParams: parameters } = new URL(url, issuer);
    const code = randomUUID();
    grants.set(code, { account, parameters });
    const state = parameters.get("state") ?? "";
    const isForm = parameters.get("response_mode") === "form_post";
    const user = isForm && !introduced.has(account.sub) ? appleUserOf(account) : undefined;
    introduced.add(account.sub);
    return {
      code,
      state,
      ...(announcesIss && { iss: issuer }),
      ...(user && { user: JSON.stringify(user) }),
    };
  }

  /** Who signs in at its page: the visitor, or who was chosen there. */
  function visitorAt({ searchParams }: URL): SimulatedAccount | undefined {
    const choice = searchParams.get(CHOICE);
    return choice === null ? visitor : people.find(({ sub }) => sub === choice);
  }

  /** The page at which people sign in, or the answer once one was chosen there. */
  function showPage(url: URL, response: ServerResponse): void {
    const target = url.searchParams.get("redirect_uri") ?? "";
    const account = visitorAt(url);
    const isAsking = people.length > 0 && !url.searchParams.has(CHOICE);
    const isForm = url.searchParams.get("response_mode") === "form_post";
    const answer = account
      ? authorize(url.href, account)
      : { error: "access_denied", state: url.searchParams.get("state") ?? "" };
    if (isAsking || isForm)
      response
        .writeHead(200, { "content-type": "text/html; charset=utf-8" })
        .end(isAsking ? choicePage(url, people) : formPage(target, answer));
    else response.writeHead(302, { location: `${target}?${new URLSearchParams(answer)}` }).end();
  }

  async function idToken({ account, parameters }: Grant): Promise<string> {
    const iat = Math.floor(now().getTime() / 1000);
    const usual = {
      iss: issuer,
      aud: CLIENT.id,
      iat,
      exp: iat + LIFETIME_SECONDS,
      nonce: parameters.get("nonce") ?? undefined,
      ...(parameters.has("max_age") && { auth_time: iat }),
      ...account,
      appleName: undefined,
    };
    const claims = faults.claims?.(usual) ?? usual;
    if (faults.signature === "none") return new UnsecuredJWT(claims).encode();
    if (faults.signature === "hs256")
      return new SignJWT(claims)
        .setProtectedHeader({ alg: "HS256", kid: "one" })
        .sign(Buffer.from(CLIENT.secret.padEnd(32, "0")));
    const { privateKey } = faults.signature === "strange" ? await generateKeyPair("RS256") : keys;
    const { kid = "one" } = faults;
    return new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid }).sign(privateKey);
  }

  async function token(body: URLSearchParams, isClient: boolean): Promise<object> {
    const code = body.get("code") ?? "";
    const grant = grants.get(code);
    grants.delete(code);
    const challenge = createHash("sha256").update(body.get("code_verifier") ?? "");
    const isRight =
      grant &&
      isClient &&
      grant.parameters.get("redirect_uri") === body.get("redirect_uri") &&
      (faults.ignoresPkce ||
        grant.parameters.get("code_challenge") === challenge.digest("base64url"));
    if (!isRight) return { error: "invalid_grant" };
    const accessToken = randomUUID();
    tokens.set(accessToken, grant.account);
    const isOpenId = (grant.parameters.get("scope") ?? "").includes("openid");
    return {
      access_token: accessToken,
      token_type: "Bearer",
      ...(isOpenId && { id_token: await idToken(grant) }),
    };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", issuer);
    if (url.pathname.endsWith("/authorize")) return showPage(url, response);
    const endpoint = ENDPOINTS[url.pathname];
    if (!endpoint) return void response.writeHead(404).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = new URLSearchParams(Buffer.concat(chunks).toString());
    requests.push({ endpoint, body, headers: request.headers });
    const replaced = faults.answer?.[endpoint];
    if (replaced) return replaced(response);
    const account = tokens.get(request.headers.authorization?.slice("Bearer ".length) ?? "");
    const answers: Record<Endpoint, () => Promise<object> | object> = {
      discovery: () => ({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
        token_endpoint_auth_methods_supported: ["client_secret_post"],
        ...(announcesIss && { authorization_response_iss_parameter_supported: true }),
      }),
      keys: () => ({ keys: [jwk] }),
      token: async () => token(body, await isSecret(body.get("client_secret") ?? "")),
      user: () => ({ id: Number(account?.sub), login: "octocat", name: account?.name }),
      emails: () => account?.emails ?? [],
    };
    const answer = await answers[endpoint]();
    const status = "error" in answer && endpoint === "token" ? 400 : 200;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }

  const server = http.createServer((request, response) => {
    handle(request, response).catch(() => response.writeHead(500).end());
  });
  issuer = await listenNear(server, port);
  return {
    issuer,
    requests,
    /** What it does wrong from now on. */
    misbehave(changes: ProviderFaults) {
      faults = changes;
    },
    /**
     * Signs an account in at the authorization URL, as a person would on its page.
     * @returns the answer that the browser carries back: `code`, `state`, and `iss`
     */
    authorize,
    /** Who signs in at its page from now on; nobody, who refuses, by default. */
    visitedBy(account: SimulatedAccount | undefined) {
      visitor = account;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const ENDPOINTS: Record<string, Endpoint> = {
  "/.well-known/openid-configuration": "discovery",
  "/keys": "keys",
  "/token": "token",
  "/login/oauth/access_token": "token",
  "/user": "user",
  "/user/emails": "emails",
};

/** Apple names people next to the ID token, which has no claim `name`. */
const appleUserOf = ({ appleName, email }: SimulatedAccount): AppleUser | undefined =>
  appleName === undefined
    ? undefined
    : { name: appleName as AppleUser["name"], ...(email !== undefined && { email }) };
