import { assertNotGuessable, readCommonPasswords } from "./accounts/password-rules.ts";
import { readCatalogue } from "./ai/catalogue.ts";
import { openProviders } from "./ai/providers/providers.ts";
import type { Config } from "./platform/config.ts";
import { openGeoIp } from "./sessions/open-session.ts";

/** Problems with what the settings name: the administrator's password, catalogue, providers, locations. Opens nothing for long. */
export async function checkFiles(config: Config): Promise<string[]> {
  const { admin, ai, geoipDatabase } = config;
  const commonPasswords = readCommonPasswords(config);
  const checks = [
    () => admin && assertNotGuessable({ commonPasswords }, admin.password, { ...admin, name: "" }, "ADMIN_PASSWORD"),
    () => openProviders(readCatalogue(ai.catalogue), ai.variables).close(),
    () => openGeoIp(geoipDatabase),
  ];
  const results = await Promise.allSettled(checks.map(async (check) => check()));
  return results.flatMap((result) => (result.status === "rejected" ? [(result.reason as Error).message] : []));
}
