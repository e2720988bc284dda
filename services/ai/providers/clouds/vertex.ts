import { urlToHttpOptions } from "node:url";
import type { AuthClient } from "google-auth-library";
import { withMembers, withoutMember } from "../../relay/json-members.ts";
import { endpointPath } from "../endpoint-path.ts";
import { resourceOf } from "../google.ts";
import type { HttpClient } from "../http-client.ts";
import type { Cloud, CloudRequest } from "./cloud.ts";
import { createIdentity, postAs, whileWanted } from "./identity.ts";
import type { Place } from "./place.ts";
import { anthropicPath, SDK_OPTIONS, sdkHeaders, sendBySdk } from "./sdk.ts";

/** Scope of the tokens of Google. */
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";

/**
 * The application default credentials of this process.
 * @param projectId without it the library would run commands to find one
 */
const createGoogleIdentity = (projectId: string) =>
  createIdentity<AuthClient>(async () => {
    const { GoogleAuth } = await import("google-auth-library");
    return new GoogleAuth({ scopes: SCOPE, projectId }).getClient();
  });

/**
 * Gemini on Vertex AI. Google's SDK does not expose unread responses, so only its credentials
 * are used.
 */
export function openVertexGoogle({ baseUrl, region, project }: Place, http: HttpClient): Cloud {
  const identity = createGoogleIdentity(project);
  const url = new URL(baseUrl || `https://${googleHost(region)}`);
  const { protocol, hostname, port } = urlToHttpOptions(url);
  async function send(
    { model, isStream, headers, body }: CloudRequest,
    client: AuthClient,
    signal: AbortSignal,
  ) {
    const granted = await whileWanted(client.getRequestHeaders(), signal);
    const resource = [...["projects", project, "locations", region, vertexResource(model)]].join(
      "/",
    );
    const method = isStream ? "streamGenerateContent" : "generateContent";
    const path = endpointPath(url.pathname, {
      ...{ version: "v1", isVersionInBase: false, resource: `${resource}:${method}` },
    });
    const target = { protocol, hostname, port, path: isStream ? `${path}?alt=sse` : path };
    const all = { ...headers, ...Object.fromEntries(granted) };
    return { message: await http.post(target, all, body, signal), path };
  }
  return { post: (request, _key, signal) => postAs(identity, send, request, signal) };
}

/** A name with a slash is a resource of the project, such as `endpoints/1234`. */
const vertexResource = (model: string): string =>
  model.includes("/") ? resourceOf(model) : `publishers/google/${resourceOf(model)}`;

function googleHost(region: string): string {
  if (region === "global") return "aiplatform.googleapis.com";
  const isMultiRegion = region === "us" || region === "eu";
  return isMultiRegion
    ? `aiplatform.${region}.rep.googleapis.com`
    : `${region}-aiplatform.googleapis.com`;
}

/** Anthropic's models on Vertex AI. */
export function openVertexAnthropic({ baseUrl, region, project }: Place, http: HttpClient): Cloud {
  const identity = createGoogleIdentity(project);
  const at = { baseURL: baseUrl || null, region, projectId: project };
  async function send(
    { api, model, isStream, headers, body }: CloudRequest,
    authClient: AuthClient,
    signal: AbortSignal,
  ) {
    const { AnthropicVertex } = await import("@anthropic-ai/vertex-sdk");
    const post = (fetch: typeof globalThis.fetch) =>
      new AnthropicVertex({ ...SDK_OPTIONS, ...at, authClient, fetch })
        .post(anthropicPath(api), {
          body: { model, stream: isStream }, // the SDK only needs these, for the URL
          headers: sdkHeaders(headers),
          signal,
        })
        .asResponse();
    return sendBySdk(http, signal, post, vertexBody(api, headers, body));
  }
  return { post: (request, _key, signal) => postAs(identity, send, request, signal) };
}

/**
 * A body as Vertex expects it: the model is in the URL, except when tokens are counted, and the API
 * version in the body. The SDK would parse and print it, which rounds numbers.
 */
function vertexBody(
  api: CloudRequest["api"],
  headers: CloudRequest["headers"],
  body: string,
): string {
  const unnamed = api === "count_tokens" ? body : withoutMember(body, "model");
  const version = headers["anthropic-version"];
  return withMembers(unnamed, { ...(version && { anthropic_version: JSON.stringify(version) }) });
}
