import { t } from "./language.svelte.ts";

/** A device such as "Chrome on Linux", in the language of the page. */
export function deviceText(device: string): string {
  const [browser = "", system] = device.split(" on ");
  return system ? t("device.on", { browser, system }) : device;
}
