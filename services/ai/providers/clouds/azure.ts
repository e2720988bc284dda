import type { HttpClient } from "../http-client.ts";
import type { Cloud, CloudRequest, CloudResponse } from "./cloud.ts";
import { createIdentity, postAs } from "./identity.ts";
import type { Place } from "./place.ts";
import { openaiPath, SDK_OPTIONS, sdkHeaders, sendBySdk } from "./sdk.ts";

/** The last dated version of the API. */
const API_VERSION = "2025-04-01-preview";
/** Scope of the tokens of Microsoft Entra. */
const SCOPE = "https://cognitiveservices.azure.com/.default";

/** Microsoft Entra's tokens for Azure OpenAI. */
type TokenProvider = () => Promise<string>;

/**
 * Azure OpenAI. Models are named by their deployment, which is part of the URL.
 * Its credentials are an API key, or those that `DefaultAzureCredential` finds.
 */
export function openAzure({ baseUrl, apiVersion }: Place, http: HttpClient): Cloud {
  const identity = createIdentity(loadTokenProvider);
  const client = { baseURL: openaiUrl(baseUrl), apiVersion: apiVersion || API_VERSION };
  async function send(
    { api, model, headers, body }: CloudRequest,
    credentials: { apiKey: string } | { apiKey: ""; azureADTokenProvider: TokenProvider },
    signal: AbortSignal,
  ): Promise<CloudResponse> {
    const { AzureOpenAI } = await import("openai");
    const post = (fetch: typeof globalThis.fetch) =>
      new AzureOpenAI({ ...SDK_OPTIONS, ...NOT_FROM_ENV, ...client, ...credentials, fetch })
        .post(openaiPath(api), { body: { model }, headers: sdkHeaders(headers), signal })
        .asResponse();
    return sendBySdk(http, signal, post, body); // the SDK only needs the model, for the URL
  }
  const sendAs = (request: CloudRequest, provider: TokenProvider, signal: AbortSignal) =>
    send(request, { apiKey: "", azureADTokenProvider: provider }, signal);
  return {
    post: (request, key, signal) =>
      key === ""
        ? postAs(identity, sendAs, request, signal)
        : send(request, { apiKey: key }, signal),
  };
}

/** Otherwise the SDK would read these from the variables of another provider. */
const NOT_FROM_ENV = { organization: null, project: null, adminAPIKey: null };

async function loadTokenProvider(): Promise<TokenProvider> {
  const { DefaultAzureCredential, getBearerTokenProvider } = await import("@azure/identity");
  return getBearerTokenProvider(new DefaultAzureCredential(), SCOPE);
}

/** Base URLs are written with and without the path that all APIs have in common. */
function openaiUrl(baseUrl: string): string {
  const url = baseUrl.replace(/\/+$/, "");
  return url.endsWith("/openai") ? url : `${url}/openai`;
}
