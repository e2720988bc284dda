/** The browser and system in a User-Agent, such as "Chrome on Linux"; empty if unknown. */
export function deviceOf(agent: string): string {
  const [browser] =
    [
      ["Edge", /\bEdg/],
      ["Firefox", /\bFirefox\//],
      ["Chrome", /Chrom(?:e|ium)\//],
      ["Safari", /\bSafari\//],
      ["curl", /^curl\//],
    ].find(([, pattern]) => (pattern as RegExp).test(agent)) ?? [];
  const [system] =
    [
      ["iOS", /iPhone|iPad/],
      ["Android", /Android/],
      ["Windows", /Windows/],
      ["macOS", /Mac OS X/],
      ["Linux", /Linux/],
    ].find(([, pattern]) => (pattern as RegExp).test(agent)) ?? [];
  return [browser, system].filter(Boolean).join(" on ");
}
