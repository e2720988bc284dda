import type { CatalogueProvider } from "../catalogue.ts";
import type { ReplyParser } from "./adapter.ts";
import { anthropicAdapter } from "./anthropic.ts";
import type { ApiPath } from "./endpoint-path.ts";
import type { RelayApi } from "./provider.ts";
import { responsesParser } from "./responses.ts";

/** How requests of an API reach its provider, and how its replies are read along. */
type Relayed = {
  /** The dialect of the providers that have the API. */
  dialect: CatalogueProvider["dialect"];
  path: ApiPath;
  parser: ReplyParser;
};

const MESSAGES = { version: "v1", isVersionInBase: false, resource: "messages" };

export const RELAY_APIS: Readonly<Record<RelayApi, Relayed>> = {
  messages: { dialect: "anthropic", path: MESSAGES, parser: anthropicAdapter },
  count_tokens: {
    dialect: "anthropic",
    path: { ...MESSAGES, resource: "messages/count_tokens" },
    parser: anthropicAdapter,
  },
  responses: {
    dialect: "openai",
    path: { version: "v1", isVersionInBase: true, resource: "responses" },
    parser: responsesParser,
  },
};
