import type { Client, GetAppConfigResponse } from "@gatehouse/client";

type Brand = GetAppConfigResponse;

/** Shown until the service has responded, or while it cannot be reached. */
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

/** Loads the brand. Sets the colours as CSS variables, and the logo as the icon of the tab. */
export async function loadBrand(app: Client["app"], baseUrl: string): Promise<void> {
  state.brand = await app.getAppConfig();
  const { style } = document.documentElement;
  style.setProperty("--accent-light", state.brand.accent.light);
  style.setProperty("--accent-dark", state.brand.accent.dark);
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (icon) icon.href = logoUrl(baseUrl) ?? letterIcon(state.brand);
}

/** An icon with the first letter of the name on the accent colour, shown instead of a logo. */
function letterIcon({ name, accent }: Brand): string {
  const letter = document.createElement("i");
  letter.textContent = [...name][0]?.toUpperCase() ?? "";
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${accent.light}"/><text x="16" y="22.5" font-family="system-ui,sans-serif" font-size="18" font-weight="600" text-anchor="middle" fill="#fff">${letter.innerHTML}</text></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** The URL of the logo; undefined without one. */
export const logoUrl = (baseUrl: string): string | undefined =>
  state.brand.logo && `${baseUrl}/${state.brand.logo}`;
