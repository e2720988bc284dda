import { describe, expect, test } from "vitest";
import {
  createRenderEmail,
  lifetimeOf,
  type TemplateVariables,
} from "../../../services/mail/templates.ts";
import german from "../../../services/mail/texts/de.json" with { type: "json" };
import english from "../../../services/mail/texts/en.json" with { type: "json" };
import type { TemplateName } from "../../../services/mail/texts.ts";

const TOKEN = "abc-DEF_123";
const app = {
  appUrl: "https://app.example",
  appName: "Acme & Sons",
  appAccent: { light: "#4f55d2", dark: "#8f94f5" },
};
/** Renders an e-mail of an installation. */
const renderEmail = (
  template: TemplateName,
  variables: TemplateVariables,
  brand: Parameters<typeof createRenderEmail>[0],
  token?: string | null,
  locale?: string | null,
) => createRenderEmail(brand)({ template, variables, token, locale });
const NAME = `Ann <b>"O'Neil"</b> & Co`;
const facts = {
  name: NAME,
  at: "2026-12-24T17:59:30.000Z",
  place: "Berlin, Germany · 203.0.113.7",
  client: "Chrome on Windows",
  lifetime: "PT1440M",
  newEmail: "new<i>@example.com",
  key: "<b>CI</b>",
  hint: "sk-gate-…abcd",
  keys: "CI (sk-gate-…abcd)",
  expires: "2027-01-31T12:00:00.000Z",
  left: "9",
  device: "Firefox on Linux",
  date: "2026-12-24T18:00:00.000Z",
  until: "2026-12-24T18:15:00.000Z",
  role: "admin",
  actor: "operator",
  email: "bea@example.com",
  state: "required",
  passkey: "<b>My phone</b>",
  provider: "Google",
  code: "012345",
};

/** The pages that receive a token. */
const PATHS: Partial<Record<TemplateName, string>> = {
  "verify-email": "/verify-email",
  "change-email": "/verify-email",
  "reset-password": "/reset-password",
  invitation: "/reset-password?invitation",
  "new-device": "/not-me",
  "email-code": "/email-code",
};
/** E-mails with a code: nobody types their token. */
const WITH_CODE = ["email-code"];
/** E-mails whose button leads to the support of the installation, or that need no button. */
const WITHOUT_PAGE = ["email-changed", "role-changed", "address-in-use"];

const names = Object.keys(english.templates) as TemplateName[];

describe.each(names)("Mail template %s", (name) => {
  const path = PATHS[name];
  const email = renderEmail(name, facts, app, path && TOKEN);

  test("greets by name in text and HTML, escaped, or without a name, and names the app", () => {
    expect(email.text).toContain(`Hello ${NAME},`);
    expect(email.html).toContain("Hello Ann &lt;b&gt;&quot;O&#39;Neil&quot;&lt;/b&gt; &amp; Co,");
    expect(email.html).not.toMatch(/<[biu]>/);
    const { name: _, ...unnamed } = facts;
    const anonymous = renderEmail(name, unnamed, app);
    expect(anonymous.text).toMatch(/^Hello,\n.*sent by Acme & Sons\./s);
    expect(anonymous.html).toMatch(/<p>Hello,<\/p>.*sent by Acme &amp; Sons\./s);
  });

  test("has a button to its page, and link and token only if required", () => {
    const href = `https://app.example${path}#token=${TOKEN}`;
    for (const body of [email.text, email.html]) {
      expect(body.includes(href)).toBe(path !== undefined);
      const isTyped = path !== undefined && !WITH_CODE.includes(name);
      expect(body.replaceAll(href, "").includes(TOKEN)).toBe(isTyped);
      expect(body.includes("https://app.example/")).toBe(!WITHOUT_PAGE.includes(name));
    }
  });

  test.each(["en", "de"])("contains no placeholder and no untranslated value: %s", (locale) => {
    const { subject, text, html } = renderEmail(name, facts, app, path && TOKEN, locale);
    for (const each of [subject, text, html.replace(/<style>.*?<\/style>/gs, "")]) {
      expect(each).not.toMatch(/undefined|\[object|\{|\}|PT\d|T\d\d:|00Z|\boperator\b(?! of)/);
      if (locale === "de") expect(each).not.toMatch(/\b(on Windows|on Linux|December|hours)\b/);
    }
    expect(html).toContain(`<html lang="${locale}">`);
  });
});

test("Mail templates: both languages have the same templates, placeholders, conditions and buttons", () => {
  const shape = (texts: typeof english | typeof german) =>
    Object.entries(texts.templates).map(([name, template]) => {
      const all = JSON.stringify(template);
      return [
        name,
        [...new Set(all.match(/\{\w+\}/g))].sort(),
        [...all.matchAll(/"if":"(\w+)"/g)].map(([, condition]) => condition),
        "button" in template,
      ];
    });
  expect(shape(german)).toEqual(shape(english));
  expect(Object.keys(german.words)).toEqual(Object.keys(english.words));
  const valuesOf = (texts: typeof english | typeof german) =>
    Object.entries(texts.values).map(([name, values]) => [name, Object.keys(values)]);
  expect(valuesOf(german)).toEqual(valuesOf(english));
});

test("Mail templates: a notice contains when, where, on which device, and a button", () => {
  const { text, html } = renderEmail("password-changed", facts, app);
  expect(text).toContain(
    [
      "When: 24 December 2026 at 17:59 UTC",
      "Where: Berlin, Germany · 203.0.113.7",
      "Device: Chrome on Windows",
      "",
      "Reset your password:",
      "https://app.example/forgot-password",
    ].join("\n"),
  );
  expect(html).toMatch(/<th [^>]*>Device<\/th><td [^>]*>Chrome on Windows<\/td>/);
  const deutsch = renderEmail("password-changed", facts, app, undefined, "de-AT").text;
  expect(deutsch).toContain("Wann: 24. Dezember 2026 um 17:59 UTC");
  expect(deutsch).toContain("Gerät: Chrome unter Windows");
});

test("Mail templates: an action of an administrator or operator says so, without a device", () => {
  const by = (who: string, locale: string) =>
    renderEmail("mfa-disabled", { at: facts.at, by: who }, app, undefined, locale).text;
  expect(by("administrator", "en")).toContain("By: an administrator");
  expect(by("operator", "de")).toContain("Durch: die Betreiber dieses Dienstes");
  expect(by("administrator", "en")).not.toMatch(/Device|Where/);
});

test("Mail templates: the button of an e-mail to a former address leads to the support page, if there is one", () => {
  const supportUrl = "mailto:help@acme.example";
  const button = />This wasn&#8217;t me<\/a>/;
  expect(renderEmail("email-changed", facts, app).html).not.toMatch(button);
  const { text, html } = renderEmail("email-changed", facts, { ...app, supportUrl });
  expect(html).toMatch(button);
  expect(text).toContain(`This wasn’t me:\n${supportUrl}`);
});

test("Mail templates: the preheader is the first text of the HTML, and hidden", () => {
  const { html, text } = renderEmail("wrong-code", facts, app);
  expect(html).toMatch(
    /<body[^>]*>\n<div style="display:none[^"]*">The password was right\.<\/div>/,
  );
  expect(text).not.toContain("The password was right.");
});

test("Mail templates: a language without texts falls back to English", () => {
  for (const locale of [null, undefined, "fr", "constructor", "__proto__"])
    expect(renderEmail("mfa-enabled", facts, app, undefined, locale).subject).toBe(
      "Two-factor authentication is on",
    );
});

test("Mail templates: values that an earlier release queued as text are used unchanged", () => {
  const old = { lifetime: "24 hours", date: "2026-12-24 18:00 UTC", state: "no longer required" };
  expect(renderEmail("verify-email", old, app, TOKEN).text).toContain("once, for 24 hours.");
  expect(renderEmail("second-factor-changed", old, app).text).toContain("is no longer required at");
});

test("Mail templates: lifetimes are formatted naturally in both languages", () => {
  const durations = [604_800_000, 86_400_000, 3_600_000, 300_000, 90 * 60_000, 1_000].map(
    (lifetimeMs) =>
      ["en", "de"].map((locale) => {
        const lifetime = lifetimeOf(lifetimeMs);
        const { text } = renderEmail("verify-email", { lifetime }, app, TOKEN, locale);
        return /(?:for|einmal,) (.*?)(?: lang)?\.\n/.exec(text)?.[1];
      }),
  );
  expect(durations).toEqual([
    ["7 days", "7 Tage"],
    ["24 hours", "24 Stunden"],
    ["1 hour", "1 Stunde"],
    ["5 minutes", "5 Minuten"],
    ["90 minutes", "90 Minuten"],
    ["1 minute", "1 Minute"],
  ]);
});

test("Mail templates: a device named like an object property keeps its name", () => {
  for (const device of ["constructor", "toString", "__proto__"]) {
    const { text } = renderEmail("session-reused", { ...facts, device }, app);
    expect(text).toContain(`your session (${device}) was used again`);
  }
});
