import { describe, expect, test } from "vitest";
import texts from "../../../services/mail/templates.json" with { type: "json" };
import {
  formatDuration,
  renderEmail,
  type TemplateName,
} from "../../../services/mail/templates.ts";

const TOKEN = "abc-DEF_123";
const app = {
  appUrl: "https://app.example",
  appName: "Acme & Sons",
  appAccent: { light: "#4f55d2", dark: "#8f94f5" },
};
const facts = {
  name: `Ann <b>"O'Neil"</b> & Co`,
  lifetime: "24 hours",
  newEmail: "new<i>@example.com",
  left: "9",
  device: "<u>Chrome</u> on Windows",
  date: "2026-12-24 18:00 UTC",
  end: "It is locked until 2026-12-24 18:15 UTC.",
  state: "required",
  passkey: "<b>My phone</b>",
  opening: "Resetting your password unlocks the account immediately.",
};

/** The pages that receive a token. */
const PATHS: Partial<Record<TemplateName, string>> = {
  "verify-email": "/verify-email",
  "change-email": "/verify-email",
  "reset-password": "/reset-password",
  invitation: "/reset-password",
};

describe.each(Object.keys(texts) as TemplateName[])("Mail template %s", (name) => {
  const path = PATHS[name];
  const email = renderEmail(name, facts, app, path && TOKEN);

  test("greets by name in text and HTML, escaped, and without a name if there is none; names the app", () => {
    expect(email.text).toContain(`Hello ${facts.name},`);
    expect(email.html).toContain("Hello Ann &lt;b&gt;&quot;O&#39;Neil&quot;&lt;/b&gt; &amp; Co,");
    expect(email.html).not.toMatch(/<[biu]>/);
    expect(email.text + email.html).not.toMatch(/undefined|\[object/);
    const { name: _, ...unnamed } = facts;
    const anonymous = renderEmail(name, unnamed, app);
    expect(anonymous.text).toMatch(/^Hello,\n.*sent by Acme & Sons\./s);
    expect(anonymous.html).toMatch(/<p>Hello,<\/p>.*sent by Acme &amp; Sons\./s);
  });

  test("has link and token if it needs an action, and no link otherwise", () => {
    const href = `https://app.example${path}#token=${TOKEN}`;
    for (const body of [email.text, email.html]) {
      expect(body.includes(href)).toBe(path !== undefined);
      expect(body.replaceAll(href, "").includes(TOKEN)).toBe(path !== undefined);
    }
    if (!path) expect(email.html).not.toContain("href");
  });
});

test("Mail templates: lifetimes read naturally", () => {
  const durations = [604_800_000, 86_400_000, 3_600_000, 300_000, 90 * 60_000, 1_000].map(
    formatDuration,
  );
  expect(durations).toEqual([
    "7 days",
    "24 hours",
    "1 hour",
    "5 minutes",
    "90 minutes",
    "1 minute",
  ]);
});
