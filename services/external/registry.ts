import { createPrivateKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import type { ExportedJWKSCache } from "openid-client";
import { z } from "zod";
import type { Config } from "../platform/config/config.ts";
import { createOutbound, type Outbound } from "../platform/outbound.ts";
import shipped from "./providers.json" with { type: "json" };

/** How to decide whether an address that a provider reports is proven. */
type ProvenAddress = "trusted" | "ignored" | "google" | "apple" | "github";

/** How a client authenticates to its provider. Apple's secret is a JWT that we sign. */
export type ClientSecret = string | { teamId: string; keyId: string; privateKey: KeyObject };

/** A sign-in provider. */
export type ExternalProvider = {
  id: string;
  name: string;
  kind: "oidc" | "github" | "apple";
  issuer: string;
  /** GitHub: base URL of its API. */
  apiUrl: string;
  clientId: string;
  secret: ClientSecret;
  scopes: string;
  emails: ProvenAddress;
  /**
   * Whether people may create accounts with this provider, and the allowed domains of their
   * addresses.
   */
  signUp: boolean;
  domains: readonly string[];
};

/** What was read from a provider. Times in ms since 1970. */
export type Discovered = {
  /** The discovery document, which has been checked. */
  document?: { text: string; readAt: number };
  /** The request for it that is in progress. */
  reading?: Promise<string>;
  keys?: ExportedJWKSCache;
  /** When the last attempt to read the document or the keys failed. */
  documentFailedAt?: number;
  keysFailedAt?: number;
};

/** The providers of a deployment by id, and the client for requests to them. */
export type ExternalContext = {
  providers: ReadonlyMap<string, ExternalProvider>;
  outbound: Outbound;
  /** By id of the provider. */
  discovered: Map<string, Discovered>;
};

type Variables = Readonly<Record<string, string | undefined>>;
type Shipped = { id: string; name: string; kind: string; issuer: string; emails: string };

const DEFAULT_SCOPES = "openid email profile";
const SCOPES: Partial<Record<string, string>> = {
  github: "read:user user:email",
  apple: "openid email name",
};
const GITHUB_API = "https://api.github.com";
const ID = /^[a-z0-9-]{1,32}$/;

const ownProviderSchema = z.strictObject({
  id: z.string().regex(ID, "must be 1 to 32 lower-case letters, digits and hyphens"),
  name: z.string().regex(/^\P{Cc}{1,64}$/u, "must be 1 to 64 characters"),
  kind: z.literal("oidc"),
  issuer: z.string(),
  clientId: z.string().min(1),
  /** Name of the variable with the client secret. */
  secretVariable: z.string().regex(/^[A-Z][A-Z0-9_]*$/, "must be the name of a variable"),
  scopes: z.string().default(DEFAULT_SCOPES),
  /** `trusted` is for a provider that knows who owns a mailbox, such as a company's own. */
  emails: z.enum(["trusted", "ignored"]).default("ignored"),
  signUp: z.boolean().default(true),
  domains: z.array(z.string().toLowerCase()).default([]),
});
const fileSchema = z.strictObject({ providers: z.array(ownProviderSchema) });

/**
 * The variables of a shipped provider. It is active if its client id is set.
 * @returns the names for the client id, for secrets, and for URLs with their defaults
 */
export function variablesOfProvider({ id, kind, issuer }: Shipped) {
  const prefix = id.toUpperCase();
  const secrets =
    kind === "apple"
      ? [`${prefix}_TEAM_ID`, `${prefix}_KEY_ID`, `${prefix}_PRIVATE_KEY`]
      : [`${prefix}_CLIENT_SECRET`];
  const urls: Record<string, string> =
    kind === "github"
      ? { [`${prefix}_BASE_URL`]: issuer, [`${prefix}_API_URL`]: GITHUB_API }
      : { [`${prefix}_ISSUER`]: issuer };
  return { clientId: `${prefix}_CLIENT_ID`, secrets, urls };
}

/**
 * Prepares the sign-in providers of a deployment. Their library is loaded, and they are connected
 * to, on first use.
 * @throws Error whose message lists all problems, without the values of variables
 */
export function openExternal(
  config: Pick<Config, "signInProviders" | "catalogueVariables" | "proxies" | "nodeEnv">,
): ExternalContext {
  const outbound = createOutbound(config.proxies, config.nodeEnv !== "production");
  const problems: string[] = [];
  const variables = config.catalogueVariables;
  const providers = [
    ...shipped.providers.map((each) => readShipped(each, variables, problems)),
    ...readOwn(config.signInProviders, variables, problems),
  ].filter((provider) => provider !== undefined);
  const ids = providers.map(({ id }) => id);
  for (const { id, issuer, apiUrl } of providers) {
    if (ids.indexOf(id) < ids.lastIndexOf(id)) problems.push(`"${id}" is listed twice`);
    for (const url of [issuer, apiUrl])
      if (!URL.canParse(url) || /[?#@\s]/.test(url) || !outbound.allows(new URL(url)))
        problems.push(`the URLs of "${id}" must have https, without user, ? and #`);
  }
  if (problems.length > 0)
    throw new Error(
      `The sign-in providers cannot be used:\n  ${[...new Set(problems)].join("\n  ")}`,
    );
  const byId = new Map(providers.map((each) => [each.id, each]));
  return { providers: byId, outbound, discovered: new Map() };
}

function readShipped(
  entry: Shipped,
  variables: Variables,
  problems: string[],
): ExternalProvider | undefined {
  const names = variablesOfProvider(entry);
  const clientId = variables[names.clientId];
  if (!clientId) return undefined;
  const missing = names.secrets.filter((name) => !variables[name]);
  if (missing.length > 0) {
    problems.push(`${missing.join(" and ")} must be set with ${names.clientId}`);
    return undefined;
  }
  const [issuer = "", apiUrl = issuer] = Object.entries(names.urls).map(([name, fallback]) =>
    (variables[name] || fallback).replace(/\/+$/, ""),
  );
  const [first = "", keyId = "", privateKey = ""] = names.secrets.map((name) => variables[name]);
  const secret =
    entry.kind === "apple" ? readAppleKey({ teamId: first, keyId, privateKey }, problems) : first;
  if (secret === undefined) return undefined;
  const { id, name } = entry;
  const kind = entry.kind as ExternalProvider["kind"];
  const emails = entry.emails as ProvenAddress;
  const scopes = SCOPES[kind] ?? DEFAULT_SCOPES;
  const rules = { emails, scopes, signUp: true, domains: [] };
  return { id, name, kind, issuer, apiUrl, clientId, secret, ...rules };
}

function readAppleKey(
  { privateKey, ...ids }: { teamId: string; keyId: string; privateKey: string },
  problems: string[],
): ClientSecret | undefined {
  try {
    const key = createPrivateKey(privateKey.replaceAll("\\n", "\n")); // ` ` in an .env file
    if (key.asymmetricKeyDetails?.namedCurve === "prime256v1") return { ...ids, privateKey: key };
  } catch {
    // not a key
  }
  problems.push(
    "APPLE_PRIVATE_KEY must be the text of the .p8 file of a key for Sign in with Apple",
  );
  return undefined;
}

/** Reads the providers in the operator's file. */
function readOwn(
  path: string | undefined,
  variables: Variables,
  problems: string[],
): ExternalProvider[] {
  if (path === undefined) return [];
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    problems.push(`SIGN_IN_PROVIDERS: "${path}" cannot be read: ${(error as Error).message}`);
    return [];
  }
  const { data, error } = fileSchema.safeParse(content);
  for (const { path: at, message } of error?.issues ?? [])
    problems.push(`SIGN_IN_PROVIDERS: ${at.join(".") || "file"}: ${message}`);
  return (data?.providers ?? []).flatMap(({ secretVariable, issuer, ...provider }) => {
    const secret = variables[secretVariable];
    if (!secret)
      problems.push(`${secretVariable} must be set, the client secret of "${provider.id}"`);
    return secret ? [{ ...provider, issuer, apiUrl: issuer, secret }] : [];
  });
}
