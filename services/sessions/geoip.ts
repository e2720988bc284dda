import type { CityResponse } from "maxmind";
import type { Call } from "../call.ts";

/** Maximum length of a location, in characters. */
const MAX_LOCATION = 200;

/**
 * Opens a MaxMind city or country database. Without a file, every location is unknown.
 * @throws Error for operators
 */
export async function openGeoIp(file: string | undefined): Promise<Call["locate"]> {
  if (!file) return () => null;
  const { open } = await import("maxmind");
  const reader = await open<CityResponse>(file).catch((error) => {
    throw new Error(`GEOIP_DB can't be read: ${(error as Error).message}`);
  });
  return (address) => {
    try {
      const found = reader.get(address);
      const names = [found?.city?.names?.en, found?.country?.names?.en].filter(Boolean);
      return names.join(", ").slice(0, MAX_LOCATION) || null;
    } catch {
      return null; // an IPv6 address, but the database only has IPv4
    }
  };
}
