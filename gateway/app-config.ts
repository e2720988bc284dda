import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import type { Config } from "../services/platform/config/config.ts";
import { readLogo } from "../services/platform/process/logo-file.ts";

/** The properties of an installation that pages show. */
export type Brand = Pick<
  Config,
  "appName" | "appAccent" | "termsUrl" | "privacyUrl" | "supportUrl"
>;

type Settings = Brand & Pick<Config, "appLogo" | "registration" | "relyingParty">;

/** The languages of the web app. */
const LANGUAGES = ["en", "de"];
const CACHED = "public, max-age=300";
/** Policy for a logo that is opened as a page: it can neither run nor load anything. */
const LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/**
 * Adds GET /app-config, which tells clients about this installation before anybody signs in, and
 * GET /app-logo. Both are the same for all callers and may be cached.
 */
export function addAppConfig(app: FastifyInstance, config: Settings): void {
  const logo = readLogo(config.appLogo);
  const digest = logo && createHash("sha256").update(logo.content).digest("hex").slice(0, 12);
  const body = {
    name: config.appName,
    ...(digest && { logo: `app-logo?v=${digest}` }),
    accent: config.appAccent,
    links: {
      ...(config.termsUrl && { terms: config.termsUrl }),
      ...(config.privacyUrl && { privacy: config.privacyUrl }),
      ...(config.supportUrl && { support: config.supportUrl }),
    },
    signIn: config.relyingParty ? ["password", "passkey"] : ["password"],
    registration: config.registration === "open",
    languages: LANGUAGES,
  };
  app.get("/app-config", (_request, reply) => reply.header("cache-control", CACHED).send(body));
  if (!logo) return;
  app.get("/app-logo", (_request, reply) => {
    reply.headers({
      "cache-control": "public, max-age=86400",
      "content-security-policy": LOGO_POLICY,
      "cross-origin-resource-policy": "cross-origin", // the web app may be on another origin
      "content-type": logo.type,
    });
    return reply.send(logo.content);
  });
}
