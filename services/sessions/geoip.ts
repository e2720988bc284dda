import type { CityResponse, Reader } from "maxmind";

/** Looks up the location of an IP address, such as "Berlin, Germany"; null if unknown. */
export type GeoIp = (address: string) => string | null;

/** Maximum length of a location, in characters. */
const MAX_LENGTH = 200;

/** Opens a MaxMind database of cities or countries. Without a file every location is unknown. @throws Error for operators */
export async function openGeoIp(file: string | undefined): Promise<GeoIp> {
  if (!file) return () => null;
  const { open } = await import("maxmind");
  const reader = await open<CityResponse>(file).catch((error) => {
    throw new Error(`GEOIP_DB can't be read: ${(error as Error).message}`);
  });
  return (address) => {
    const found = get(reader, address);
    const names = [found?.city?.names?.en, found?.country?.names?.en].filter(Boolean);
    return names.join(", ").slice(0, MAX_LENGTH) || null;
  };
}

/** The reader throws for an IPv6 address if its database has only IPv4. */
function get(reader: Reader<CityResponse>, address: string): CityResponse | null {
  try {
    return reader.get(address);
  } catch {
    return null;
  }
}
