// A provider whose requests a function answers.

import { createServer, type ServerResponse } from "node:http";
import { readCatalogue } from "../../../services/ai/catalogue.ts";
import { openProviders } from "../../../services/ai/providers/providers.ts";
import { listen } from "../../support/network/sockets.ts";
import { forTest } from "../../support/suites.ts";
import { promptFor } from "./support.ts";

/**
 * Starts it for a test.
 * @param keyTexts the value of its key variable
 */
export async function startModelServer(
  keyTexts: string,
  answer: (response: ServerResponse) => unknown,
) {
  const keys: string[] = [];
  const server = createServer(({ headers }, response) => {
    keys.push(headers.authorization?.replace("Bearer ", "") ?? "");
    answer(response);
  });
  const url = `http://127.0.0.1:${await listen(await forTest(server))}`;
  const catalogue = readCatalogue();
  const [entry] = catalogue.providers;
  if (!entry) throw new Error("The catalogue has no provider.");
  const variables = { [entry.keyVariable]: keyTexts, [entry.baseUrlVariable]: url };
  const providers = await forTest(openProviders(catalogue, variables, { backoffMs: 1 }));
  return {
    /** The keys of the requests so far. */
    keys,
    /** Sends a prompt and reads the reply. */
    async ask(): Promise<void> {
      const prompt = { ...promptFor(entry, "Hello!"), isStream: false };
      const reply = providers.reply([{ provider: entry.id, prompt }], new AbortController().signal);
      for await (const _ of reply);
    },
    /**
     * Asks two models to count the tokens of a body.
     * @param onTarget receives the index of a model that the call continues with
     */
    count(onTarget: (index: number) => void): Promise<string> {
      const relay = {
        ...{ bytes: 2, images: 0, files: 0, fileCharacters: 0 },
        bodyFor: () => "{}",
        headers: {},
      };
      const prompt = {
        ...{ model: entry.models[0], isStream: false },
        relay: { api: "count_tokens" as const, ...relay },
      };
      const routed = { provider: entry.id, prompt };
      return providers.answer([routed, routed], new AbortController().signal, onTarget);
    },
  };
}
