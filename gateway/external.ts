import type { FastifyInstance, FastifyRequest } from "fastify";
import { Reason } from "../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Config } from "../services/platform/config/config.ts";
import { ServiceError } from "../services/platform/rpc/errors.ts";
import { nothingHere } from "./request-hooks.ts";

/**
 * Parameters in the response of a provider (RFC 6749 section 4.1.2, RFC 9207), and the name that
 * Apple sends with the first sign-in. All others are dropped.
 */
const PARAMETERS = ["code", "state", "iss", "error", "user"];
/** Maximum length of a parameter, in characters. */
const MAX_LENGTH = 4_096;
/** Maximum size of a form, in bytes. */
const MAX_FORM_BYTES = 16 * 1024;

/**
 * Adds the redirect URI for sign-in providers. It reads no cookie and decides nothing: it forwards
 * the response to a configured page, in the fragment, which is not sent to any server. The number
 * at the beginning of the state selects the page from a list; nothing else in a request names a
 * target.
 */
export function addExternal(
  app: FastifyInstance,
  { externalPages }: Pick<Config, "externalPages">,
): void {
  app.route<{ Params: { provider: string } }>({
    method: ["GET", "POST"],
    url: "/auth/external/:provider/callback",
    bodyLimit: MAX_FORM_BYTES,
    handler(request, reply) {
      const { provider } = request.params;
      if (!/^[a-z0-9-]{1,32}$/.test(provider)) throw nothingHere();
      const given = parametersOf(request);
      const answer = new URLSearchParams({ provider });
      for (const name of PARAMETERS) {
        const [value, ...others] = given.getAll(name);
        if (others.length > 0 || (value?.length ?? 0) > MAX_LENGTH)
          throw new ServiceError(Reason.MALFORMED_REQUEST, `“${name}” is repeated or too long.`);
        if (value !== undefined) answer.set(name, value);
      }
      const [, number = "0"] = /^(\d{1,3})\./.exec(answer.get("state") ?? "") ?? [];
      const page = externalPages[Number(number)] ?? externalPages[0];
      return reply.redirect(`${page}#${answer}`, 303);
    },
  });
}

/** The parameters in the query or in a form (`response_mode=form_post`, which Apple requires). */
function parametersOf({ method, raw, body }: FastifyRequest): URLSearchParams {
  const [, query = ""] = /\?([^#]*)/.exec(raw.url ?? "") ?? [];
  return new URLSearchParams(
    method === "POST" && body instanceof Uint8Array ? Buffer.from(body).toString() : query,
  );
}
