import { type CityResponse, open } from "maxmind";

/** Tells where an address is, such as "Berlin, Germany"; null where nothing is known. */
export type GeoIp = (address: string) => string | null;

/** Longest location that is kept, in characters. */
const MAX_LENGTH = 200;

/** Opens a MaxMind database of cities or countries; without one nothing is known. @throws Error for operators */
export async function openGeoIp(file: string | undefined): Promise<GeoIp> {
  if (!file) return () => null;
  const reader = await open<CityResponse>(file).catch((error) => {
    throw new Error(`GEOIP_DB can't be read: ${(error as Error).message}`);
  });
  return (address) => {
    const found = read(address, (text) => reader.get(text));
    const names = [found?.city?.names?.en, found?.country?.names?.en].filter(Boolean);
    return names.join(", ").slice(0, MAX_LENGTH) || null;
  };
}

/** The reader throws at an IPv6 address when it only knows IPv4. */
function read(address: string, get: (address: string) => CityResponse | null): CityResponse | null {
  try {
    return get(address);
  } catch {
    return null;
  }
}
