import type { Client, GetAppConfigResponse } from "@gatehouse/client";

type Brand = GetAppConfigResponse;

/** What is shown before the service has answered, or while it can't be reached. */
const UNKNOWN: Brand = {
  name: document.title,
  accent: { light: "#4f55d2", dark: "#7f83de" },
  links: {},
  signIn: ["password"],
  registration: true,
  languages: ["en", "de"],
};

const state = $state.raw({ brand: UNKNOWN });

/** Name, colour and links of this installation. */
export const brand = (): Brand => state.brand;

/** Reads them. The colours become variables of the styles. */
export async function loadBrand(app: Client["app"]): Promise<void> {
  state.brand = await app.getAppConfig();
  const { style } = document.documentElement;
  style.setProperty("--accent-light", state.brand.accent.light);
  style.setProperty("--accent-dark", state.brand.accent.dark);
}

/** The address of the logo; undefined without one. */
export const logoUrl = (baseUrl: string): string | undefined =>
  state.brand.logo && `${baseUrl}/${state.brand.logo}`;
