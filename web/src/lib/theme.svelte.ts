/** The themes that a user can choose. */
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "gatehouse-theme";

const stored = THEMES.find((theme) => theme === localStorage.getItem(KEY));
const state = $state({ theme: stored ?? ("system" as Theme) });

export const theme = () => state.theme;

export function setTheme(chosen: Theme): void {
  state.theme = chosen;
  localStorage.setItem(KEY, chosen);
  applyTheme();
}

/** The styles define each colour for both themes; the attribute selects one. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = state.theme;
}
