import { expect, test } from "vitest";
import { createRenderEmail } from "../../../services/mail/templates.ts";
import english from "../../../services/mail/texts/en.json" with { type: "json" };
import type { TemplateName } from "../../../services/mail/texts.ts";
import { describeChromium } from "../../support/browser.ts";

const names = Object.keys(english.templates) as TemplateName[];
const TOKEN = "A".repeat(43);
/** The longest values that a mail has to take. */
const facts = {
  name: "Maximiliane-Alexandra von Hohenberg-Schwarzenfels",
  at: "2026-12-24T17:59:30.000Z",
  place: "Berlin, Germany · 2001:db8:85a3:8d3:1319:8a2e:370:7348",
  client: "Chrome on Windows",
  lifetime: "PT1440M",
  newEmail: "maximiliane-alexandra.von-hohenberg-schwarzenfels@mail.example.com",
  key: "Continuous integration of the product",
  hint: "abcd...wxyz",
  keys: "CI (abcd...wxyz), Notebook (efgh...stuv)",
  expires: "2027-01-31T12:00:00.000Z",
  left: "9",
  code: "482913",
  device: "Firefox on Linux",
  date: "2026-12-24T18:00:00.000Z",
  until: "2026-12-24T18:15:00.000Z",
  role: "admin",
  actor: "operator",
  email: "maximiliane-alexandra.von-hohenberg-schwarzenfels@mail.example.com",
  state: "required",
  passkey: "Phone of Maximiliane",
  provider: "Microsoft",
  whose: "deployment",
  limit: "1000000.000000001",
  unit: "USD",
  period: "month",
  host: "hooks.customer-relations.example.com",
  reason: "failing",
};
const render = createRenderEmail({
  appUrl: "https://app.example/a/rather/long/path/to/the/front/end/of/this/installation",
  appName: "Acme & Sons",
  appAccent: { light: "#4f55d2", dark: "#8f94f5" },
  termsUrl: "https://acme.example/terms",
  privacyUrl: "https://acme.example/privacy",
  supportUrl: "mailto:help@acme.example",
});

/**
 * The texts that can hardly be read: the contrast of each, as far as it is below 4.5 (WCAG 2.2).
 */
const HARD_TO_READ = `(() => {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvas = isDark ? [18, 18, 18] : [255, 255, 255];
  const rgb = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = (color) => color.map((value) => value / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const found = [];
  for (const element of document.body.querySelectorAll("p, h1, th, td, a, code")) {
    if (!element.checkVisibility({ opacityProperty: true }) || element.textContent.trim() === "") continue;
    const style = getComputedStyle(element);
    const fill = rgb(style.backgroundColor);
    const ground = fill.length === 3 ? fill : canvas;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const shown = rgb(style.color).slice(0, 3).map((value, i) => value * opacity + ground[i] * (1 - opacity));
    const ratio = contrast(shown, ground);
    if (ratio < 4.5) found.push([element.textContent.trim().slice(0, 40), ratio.toFixed(2)].join(": "));
  }
  return found;
})()`;
const TOO_WIDE = "document.documentElement.scrollWidth - innerWidth";

describeChromium("Mail templates: rendering", (visit) => {
  test.for(names)(
    "%s fits a phone and a computer, and is readable in light and dark mode",
    async (template) => {
      const { page } = await visit("about:blank");
      const problems: string[] = [];
      for (const locale of ["en", "de"]) {
        const { html } = render({ template, variables: facts, token: TOKEN, locale });
        await page.setContent(html);
        for (const width of [375, 640]) {
          await page.setViewportSize({ width, height: 800 });
          const tooWide = await page.evaluate(TOO_WIDE);
          if (tooWide !== 0) problems.push(`${locale}, ${width} px: too wide by ${tooWide}`);
        }
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          const hard = (await page.evaluate(HARD_TO_READ)) as string[];
          problems.push(...hard.map((each) => `${locale}, ${colorScheme}: ${each}`));
        }
      }
      expect(problems).toEqual([]);
      await page.close();
    },
  );
});

test.each(["en", "de"])(
  "Mail templates: every plain text contains the paragraphs of the HTML: %s",
  (locale) => {
    for (const template of names) {
      const { subject, text, html } = render({ template, variables: facts, token: TOKEN, locale });
      const paragraphs = text.trimEnd().split("\n\n");
      expect(paragraphs.length, template).toBeGreaterThanOrEqual(3);
      expect(text, template).not.toMatch(/[<>]|&[a-z#]|[ \t]\n| {2}|\n{3}/);
      expect(subject, template).not.toMatch(/[\n{}]|\.$/);
      const shown = html
        .replace(/<style>.*?<\/style>|<[^>]*>/gs, " ")
        .replace(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)))
        .replace(/&(amp|quot);/g, (_, name: string) => (name === "amp" ? "&" : '"'))
        .replace(/\s+/g, " ");
      const sentences = paragraphs.filter((each) => !/\n|: /.test(each));
      for (const sentence of sentences) expect(shown, template).toContain(sentence);
    }
  },
);
