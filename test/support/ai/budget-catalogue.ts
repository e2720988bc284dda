// The shipped catalogue with round prices, for budgets.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../temporary-folder.ts";

/** The price of `model-a-1`, in USD per million tokens: 1,000 and 4,000 nano-units per token. */
const PRICE = { input: 1, output: 4 };

/**
 * Writes it. `model-a-1` has a price, `model-a-3` is free, and no other model has a price. Nothing
 * is added to the text of a prompt. The alias `assistant` leads to the first, then to the third.
 * @returns its path, for `AI_CATALOG`
 */
export function budgetCatalogue(): string {
  const neutral = new URL("../../../services/ai/catalogue/neutral.json", import.meta.url);
  const catalogue = JSON.parse(readFileSync(neutral, "utf8"));
  for (const { models } of catalogue.providers)
    for (const model of models) {
      delete model.price;
      Object.assign(model, { overheadTokens: 0, imageTokens: 1_000 });
    }
  const [first, , third] = catalogue.providers[0].models;
  first.price = PRICE;
  third.price = { input: 0, output: 0 };
  catalogue.aliases = [
    {
      name: "assistant",
      targets: [
        { provider: "provider-a", model: "model-a-1" },
        { provider: "provider-a", model: "model-a-3", weight: 0 },
      ],
    },
  ];
  const path = join(temporaryFolder(), "budgets.json");
  writeFileSync(path, JSON.stringify(catalogue));
  return path;
}
