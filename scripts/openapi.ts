/** Prints the OpenAPI document of this version: `node scripts/openapi.ts > openapi.json`. */
import { openApiDocument } from "../gateway/docs/openapi.ts";
import { readBinding } from "../gateway/transcode/binding.ts";
import { services } from "../services/platform/policy.ts";

const PUBLIC_URL = "https://gatehouse.dev";

/** The document of GET /openapi.json. */
export const currentDocument = () =>
  openApiDocument(
    services.flatMap((service) => service.methods.map(readBinding)),
    PUBLIC_URL,
  );

if (import.meta.main) process.stdout.write(JSON.stringify(currentDocument()));
