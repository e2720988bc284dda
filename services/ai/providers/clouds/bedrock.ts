import type { HttpClient } from "../http-client.ts";
import type { Cloud, CloudRequest, CloudResponse } from "./cloud.ts";
import { createIdentity, postAs } from "./identity.ts";
import type { Place } from "./place.ts";
import { anthropicPath, openaiPath, SDK_OPTIONS, sdkHeaders, sendBySdk } from "./sdk.ts";

/** Statuses of a signature or of credentials that are not valid or have expired. */
const REFUSALS = [401, 403];

/** Credentials of the default chain, which the function renews before they expire. */
type Signer = ReturnType<typeof import("@aws-sdk/credential-provider-node").defaultProvider>;
/** An API key, or credentials to sign with. */
type Credentials = { key: string } | { sign: Signer };

type SendToBedrock = (
  request: CloudRequest,
  credentials: Credentials,
  signal: AbortSignal,
) => Promise<CloudResponse>;

/**
 * Amazon Bedrock, at its endpoints with server-sent events. Its credentials are an API key, or
 * those that the default chain of the AWS SDK finds: with them, requests are signed (SigV4).
 */
function openBedrock(send: SendToBedrock): Cloud {
  const identity = createIdentity(async () => {
    const { defaultProvider } = await import("@aws-sdk/credential-provider-node");
    return defaultProvider();
  });
  const sendAs = (request: CloudRequest, sign: Signer, signal: AbortSignal) =>
    send(request, { sign }, signal);
  return {
    post: (request, key, signal) =>
      key === ""
        ? postAs(identity, sendAs, request, signal, REFUSALS)
        : send(request, { key }, signal),
  };
}

/** Models with OpenAI's API. */
export function openBedrockOpenai({ baseUrl, region }: Place, http: HttpClient): Cloud {
  return openBedrock(async ({ api, headers, body }, credentials, signal) => {
    const { OpenAI } = await import("openai");
    const { bedrock } = await ("key" in credentials
      ? import("openai/providers/bedrock")
      : import("openai/providers/bedrock/aws"));
    const isRuntime = baseUrl !== "" && new URL(baseUrl).hostname.startsWith("bedrock-runtime");
    const provider = bedrock({
      ...(region && { region }),
      ...(baseUrl
        ? { baseURL: baseUrl, endpoint: isRuntime ? ("runtime" as const) : ("mantle" as const) }
        : { baseURL: null }),
      ...("key" in credentials
        ? { apiKey: credentials.key }
        : { credentialProvider: credentials.sign }),
    });
    const post = (fetch: typeof globalThis.fetch) =>
      new OpenAI({ ...SDK_OPTIONS, provider, fetch })
        .post(openaiPath(api), { body, headers: sdkHeaders(headers), signal })
        .asResponse();
    return sendBySdk(http, signal, post);
  });
}

/** Models with Anthropic's API. */
export function openBedrockAnthropic({ baseUrl, region }: Place, http: HttpClient): Cloud {
  const at = {
    baseURL: baseUrl || `https://bedrock-mantle.${region}.api.aws/anthropic`,
    ...(region && { awsRegion: region }),
  };
  return openBedrock(async ({ api, headers, body }, credentials, signal) => {
    const { AnthropicBedrockMantle } = await import("@anthropic-ai/bedrock-sdk");
    const access =
      "key" in credentials
        ? { apiKey: credentials.key }
        : // null, since without its own key the SDK would take one from a variable
          { apiKey: null, providerChainResolver: async () => credentials.sign };
    const post = (fetch: typeof globalThis.fetch) =>
      new AnthropicBedrockMantle({ ...SDK_OPTIONS, ...at, ...access, fetch })
        .post(anthropicPath(api), { body, headers: sdkHeaders(headers), signal })
        .asResponse();
    return sendBySdk(http, signal, post);
  });
}
