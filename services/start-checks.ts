import { readCatalogue } from "./ai/catalogue.ts";
import { openProviders } from "./ai/providers/providers.ts";
import type { Config } from "./platform/config.ts";
import { readTlsFiles } from "./platform/process.ts";
import { openGeoIp } from "./sessions/geoip.ts";

/** Problems of the files and addresses that the settings name: catalogue, providers, locations, certificates. Opens nothing for long. */
export async function checkFiles({ ai, geoipDatabase, grpc }: Config): Promise<string[]> {
  const checks = [
    () => openProviders(readCatalogue(ai.catalogue), ai.variables).close(),
    () => openGeoIp(geoipDatabase),
    () => grpc.tls && readTlsFiles(grpc.tls),
  ];
  const results = await Promise.allSettled(checks.map(async (check) => check()));
  return results.flatMap((result) => (result.status === "rejected" ? [(result.reason as Error).message] : []));
}
