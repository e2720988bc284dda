import { assertNotGuessable, readCommonPasswords } from "./accounts/password-rules.ts";
import { readCatalogue } from "./ai/catalogue.ts";
import { openProviders } from "./ai/providers/providers.ts";
import { openExternal } from "./external/registry.ts";
import { readMailTexts } from "./mail/texts.ts";
import type { Config } from "./platform/config/config.ts";
import { openGeoIp } from "./sessions/geoip.ts";

/**
 * Checks of what the settings refer to: the administrator's password, the catalogue, the providers,
 * the GeoIP database and the texts of e-mails. Nothing stays open.
 */
export function checksOf(config: Config): (() => unknown)[] {
  const { admin, aiCatalog, catalogueVariables, geoipDb, mailTemplates } = config;
  const commonPasswords = readCommonPasswords(config);
  return [
    () =>
      admin &&
      assertNotGuessable(
        { commonPasswords, config },
        admin.password,
        { ...admin, name: "" },
        "ADMIN_PASSWORD",
      ),
    () => openProviders(readCatalogue(aiCatalog), catalogueVariables).close(),
    () => openExternal(config),
    () => openGeoIp(geoipDb),
    () => readMailTexts(mailTemplates),
  ];
}
