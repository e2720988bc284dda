import { type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import fastifyCookie from "@fastify/cookie";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { decodeJwt } from "jose/jwt/decode";
import { CookieClearing } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import type { Clock } from "../../services/platform/process/clock.ts";
import {
  AI_IGNORED,
  BUDGET_LIMIT,
  BUDGET_REMAINING,
  BUDGET_RESET,
  KEEPS_COOKIES,
} from "../../services/platform/rpc/metadata.ts";
import type { HttpFormat } from "../formats/format.ts";
import { formatOfTarget } from "../formats/formats.ts";
import type { CookieField, HttpBinding } from "./binding.ts";
import { errorResponse } from "./errors.ts";
import type { HttpErrorResponse } from "./http-error.ts";

/** Headers of an RPC's response that are forwarded to the client. */
const LIMITS = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const BUDGET = [BUDGET_LIMIT, BUDGET_REMAINING, BUDGET_RESET];
const FORWARDED = [...LIMITS, "retry-after", AI_IGNORED, ...BUDGET];

const JSON_TYPE = "application/json; charset=utf-8";
const emitDefaults = { alwaysEmitImplicit: true };

/** Forwards headers. The port's rate-limit headers are kept if they are tighter. */
export function forwardHeaders(from: Headers, reply: FastifyReply): void {
  const atPort = reply.getHeader("ratelimit-remaining");
  const isLooser =
    atPort !== undefined && Number(from.get("ratelimit-remaining") ?? 0) > Number(atPort);
  for (const name of FORWARDED) {
    const value = from.get(name);
    if (value !== null && !(isLooser && LIMITS.includes(name))) reply.header(name, value);
  }
}

/**
 * Sends a successful response: status, cookies, and the message as ProtoJSON including default
 * values.
 */
export function sendMessage(
  rule: HttpBinding,
  reply: FastifyReply,
  { message, header }: { message: MessageShape<DescMessage>; header: Headers },
  clock: Clock,
): void {
  for (const { cookie, field, maxAgeSeconds } of rule.responseCookies) {
    const token = (message as Record<string, unknown>)[field.localName];
    if (typeof token === "string" && token !== "")
      reply.setCookie(cookie, token, { maxAge: maxAgeSeconds || secondsLeft(token, clock) });
  }
  const clears =
    rule.policy.clearsCookie === CookieClearing.ON_SUCCESS && !header.has(KEEPS_COOKIES);
  if (clears) clearCookies(rule.requestCookies, reply);
  const { maxAgeSeconds, successStatus, textType } = rule.policy;
  if (maxAgeSeconds > 0) reply.header("cache-control", `public, max-age=${maxAgeSeconds}`);
  if (textType)
    sendText(reply, successStatus, `${textType}; charset=utf-8`, ownText(rule, message));
  else sendJson(reply, successStatus, rule.format?.whole(message) ?? ownJson(rule, message));
}

/** The field that makes up a text response. */
const ownText = ({ responseField }: HttpBinding, message: MessageShape<DescMessage>): string =>
  String((message as Record<string, unknown>)[responseField?.localName ?? ""]);

/** A message as ProtoJSON, or only the field that makes up the response. */
function ownJson(
  { method, omittedLists, hiddenFields, responseField }: HttpBinding,
  message: MessageShape<DescMessage>,
): string {
  const json = toJson(method.output, message, emitDefaults) as Record<string, unknown>;
  for (const { jsonName } of omittedLists)
    if ((json[jsonName] as unknown[]).length === 0) delete json[jsonName];
  for (const { jsonName } of hiddenFields) delete json[jsonName];
  return JSON.stringify(responseField ? (json[responseField.jsonName] ?? null) : json);
}

/** Sends JSON text. */
export function sendJson(reply: FastifyReply, status: number, text: string): void {
  sendText(reply, status, JSON_TYPE, text);
}

function sendText(reply: FastifyReply, status: number, type: string, text: string): void {
  reply.code(status).header("content-type", type).send(text);
}

/**
 * The format of a request: that of its method or, without a method, of its path; undefined for our
 * own JSON.
 */
function formatOfRequest({ routeOptions, raw }: FastifyRequest): HttpFormat | undefined {
  const binding = routeOptions.config?.binding;
  return binding ? binding.format : formatOfTarget(raw.url);
}

/**
 * Sends an error. A 401 clears the cookie whose token was rejected, but not if there were several
 * and it is unclear which one was ours.
 */
export function sendError(failed: HttpErrorResponse, reply: FastifyReply): void {
  const { statusCode } = failed.body;
  const rule = reply.request.routeOptions.config?.binding; // if the request reached a method
  const format = formatOfRequest(reply.request);
  const { status, headers, body } = errorResponse(failed, format, rule !== undefined);
  const clears = rule?.policy.clearsCookie === CookieClearing.ON_UNAUTHENTICATED;
  if (clears && statusCode === 401) {
    const read = reply.request.tokenCookies ?? [];
    clearCookies(
      read.filter(({ isAmbiguous }) => !isAmbiguous),
      reply,
    );
  }
  if (statusCode === 401) reply.header("www-authenticate", "Bearer");
  sendJson(reply.headers(headers), status, JSON.stringify(body));
}

function clearCookies(cookies: readonly CookieField[], reply: FastifyReply): void {
  for (const { cookie } of cookies) reply.setCookie(cookie, "", { maxAge: 0 });
}

/** Seconds until a JWT expires. */
const secondsLeft = (token: string, clock: Clock) =>
  Math.max(0, Math.ceil((decodeJwt(token).exp ?? 0) - clock.now().getTime() / 1000));

/** Path of the cookies: browsers send them only to routes below it. */
const COOKIE_PATH = "/auth";

/**
 * Configures the service's cookies. Scripts cannot read them, and other sites cannot send them (RFC
 * 6265).
 * @param publicUrl URL as clients see it, including a path prefix that the proxy strips
 */
export function addCookies(app: FastifyInstance, publicUrl: string): void {
  const { protocol, pathname } = new URL(`${publicUrl}${COOKIE_PATH}`);
  const attributes = {
    path: pathname,
    httpOnly: true,
    sameSite: "strict",
    secure: protocol === "https:",
  } as const;
  app.decorateRequest("tokenCookies");
  app.register(fastifyCookie, { hook: false, parseOptions: attributes }); // defaults for all cookies
}
