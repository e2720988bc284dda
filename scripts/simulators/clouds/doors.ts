import type { ErrorAnswer, Received } from "../dialect-encoder.ts";
import { type Door, KEY } from "../simulator.ts";
import { isSigned, type SignedRequest } from "./aws-signature.ts";
import type { CloudIdentity } from "./identity.ts";

/** Where the simulated clouds are. */
export const REGION = "eu-central-1";
export const PROJECT = "simulated-project";

/** A request as a door sees it. */
type Arrived = SignedRequest & Received;

const bearerOf = ({ headers }: Received) => headers.authorization?.replace(/^Bearer /, "");
const refusal = (status: number, error: object): ErrorAnswer => ({ status, body: { error } });
const notFound = refusal(404, { code: "404", message: "Resource not found", status: "NOT_FOUND" });

/** The request as the dialect behind the door expects it. */
const inside = (
  request: Arrived,
  path: string,
  headers: Record<string, string>,
  body: unknown = request.body,
): Received => {
  const { authorization: _, ...others } = request.headers;
  return { path, query: request.query, headers: { ...others, ...headers }, body };
};
const asBearer = { authorization: `Bearer ${KEY}` };

/** Azure OpenAI: the deployment is in the path, the version in the query. */
export const azureDoor =
  (identity: CloudIdentity): Door =>
  (request) => {
    const token = bearerOf(request);
    const hasKey = request.headers["api-key"] === KEY && token === undefined;
    if (!hasKey && !identity.isValid(token))
      return refusal(401, {
        code: "401",
        message: `Access denied due to invalid subscription key or token: ${token}`,
      });
    const [, deployment, named] =
      /^\/openai\/deployments\/([^/]+)\/(chat\/completions|embeddings)$/.exec(request.path) ?? [];
    const rest = named ?? /^\/openai\/(responses)$/.exec(request.path)?.[1];
    const isVersioned = /^\d{4}-\d\d-\d\d(-preview)?$/.test(request.query.get("api-version") ?? "");
    if (!rest || !isVersioned) return notFound;
    const { model } = request.body as { model?: string };
    if (deployment !== undefined && deployment !== model)
      return refusal(404, { code: "DeploymentNotFound", message: "There is no such deployment." });
    return inside(request, `/v1/${rest}`, asBearer);
  };

/** Amazon Bedrock: requests are signed, unless they have an API key. */
export const bedrockDoor =
  (identity: CloudIdentity, prefix: string): Door =>
  (request) => {
    const scope = { region: REGION, service: "bedrock-mantle" };
    if (bearerOf(request) !== KEY && !isSigned(request, scope, identity.awsKeysOf))
      return refusal(403, {
        message: "The security token included in the request is expired or invalid.",
        type: "ExpiredTokenException",
      });
    const rest = request.path.startsWith(prefix) ? request.path.slice(prefix.length) : undefined;
    return rest ? inside(request, `/v1/${rest}`, asBearer) : notFound;
  };

const unauthenticated = refusal(401, {
  code: 401,
  message: "Request had invalid authentication credentials.",
  status: "UNAUTHENTICATED",
});

const modelAt = (publisher: string) =>
  new RegExp(
    `^/v1/projects/${PROJECT}/locations/${REGION}/publishers/${publisher}/models/([^/:]+):(\\w+)$`,
  );

/** Gemini on Vertex AI. */
export const vertexGoogleDoor =
  (identity: CloudIdentity): Door =>
  (request) => {
    if (!identity.isValid(bearerOf(request))) return unauthenticated;
    const [, model, method] = modelAt("google").exec(request.path) ?? [];
    if (!model) return notFound;
    return inside(request, `/v1beta/models/${model}:${method}`, { "x-goog-api-key": KEY });
  };

/** Anthropic's models on Vertex AI: the version of the API is in the body, and the model is not. */
export const vertexAnthropicDoor =
  (identity: CloudIdentity): Door =>
  (request) => {
    if (!identity.isValid(bearerOf(request))) return unauthenticated;
    const [, model = "", method] = modelAt("anthropic").exec(request.path) ?? [];
    const { anthropic_version: version, ...body } = request.body as Record<string, unknown>;
    if (typeof version !== "string" || request.headers["anthropic-version"])
      return invalid("anthropic_version: belongs in the body");
    const passed = { ...asBearer, "anthropic-version": version };
    if (model === "count-tokens" && method === "rawPredict")
      return inside(request, "/v1/messages/count_tokens", passed, body);
    if (method !== methodFor(body)) return notFound;
    if (body.model !== undefined) return invalid("model: Extra inputs are not permitted");
    return inside(request, "/v1/messages", passed, { ...body, model });
  };

const methodFor = ({ stream }: Record<string, unknown>) =>
  stream ? "streamRawPredict" : "rawPredict";

const invalid = (message: string) =>
  refusal(400, { code: 400, message, status: "INVALID_ARGUMENT" });
