import type { CloudName } from "../../catalogue-clouds.ts";
import type { HttpClient } from "../http-client.ts";
import { openAzure } from "./azure.ts";
import { openBedrockAnthropic, openBedrockOpenai } from "./bedrock.ts";
import type { Cloud } from "./cloud.ts";
import type { Place } from "./place.ts";
import { openVertexAnthropic, openVertexGoogle } from "./vertex.ts";

/**
 * Opens the models of a dialect in a cloud. Nothing is loaded or connected before the first call.
 */
export function openCloud(
  cloud: CloudName,
  dialect: string,
  place: Place,
  http: HttpClient,
): Cloud {
  if (cloud === "azure") return openAzure(place, http);
  const isAnthropic = dialect === "anthropic";
  if (cloud === "bedrock")
    return isAnthropic ? openBedrockAnthropic(place, http) : openBedrockOpenai(place, http);
  return isAnthropic ? openVertexAnthropic(place, http) : openVertexGoogle(place, http);
}
