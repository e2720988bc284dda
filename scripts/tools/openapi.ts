/**
 * Writes `gen/openapi.json`, which the gateway serves at GET /openapi.json. Run by `npm run
 * generate`.
 */
import { writeFileSync } from "node:fs";
import { openApiDocument } from "./openapi/document.ts";

/** The text of `gen/openapi.json`. */
export const openApiText = () => `${JSON.stringify(openApiDocument(), null, 1)}\n`;

if (import.meta.main) writeFileSync("gen/openapi.json", openApiText());
