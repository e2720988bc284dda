import type { Provider, UsageDay } from "@gatehouse/client";

/** Number of rows of a full page. */
const PAGE_ROWS = 1_000;

/** Reads all pages of a usage report. */
export async function allUsage(load: (page: number) => Promise<UsageDay[]>): Promise<UsageDay[]> {
  const rows: UsageDay[] = [];
  for (let page = 1; rows.length === (page - 1) * PAGE_ROWS; page += 1)
    rows.push(...(await load(page)));
  return rows;
}

/** The display name of a provider. */
export const providerName = (providers: readonly Provider[], provider: string): string =>
  providers.find((each) => each.provider === provider)?.displayName ?? provider;

/** The display name of a model. */
export const modelName = (
  providers: readonly Provider[],
  { provider, model }: { provider: string; model: string },
): string =>
  providers.find((each) => each.provider === provider)?.models.find((each) => each.model === model)
    ?.displayName ?? model;
