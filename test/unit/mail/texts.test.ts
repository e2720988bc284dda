import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createRenderEmail } from "../../../services/mail/templates.ts";
import english from "../../../services/mail/texts/en.json" with { type: "json" };
import { readMailTexts } from "../../../services/mail/texts.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

/** A folder with files, by name. A content that is no text is written as JSON. */
function folderOf(files: Record<string, unknown>): string {
  const folder = temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    const text = typeof content === "string" ? content : JSON.stringify(content);
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const brand = {
  appUrl: "https://app.example",
  appName: "Acme & Sons",
  appAccent: { light: "#4f55d2", dark: "#8f94f5" },
};
const variables = { name: "Ann", lifetime: "PT1440M" };
const TOKEN = "abc-DEF_123";

test("MAIL_TEMPLATES: replaces single texts of an e-mail, and keeps all others", () => {
  const mailTemplates = folderOf({
    "en.json": {
      words: { signature: "Yours, {app}" },
      templates: {
        "verify-email": { subject: "Welcome to {app}", paragraphs: ["Valid for {lifetime}."] },
      },
    },
    "..data": "files of Kubernetes are not ours",
  });
  const render = createRenderEmail({ ...brand, mailTemplates });
  const { subject, text, html } = render({ template: "verify-email", variables, token: TOKEN });
  expect(subject).toBe("Welcome to Acme & Sons");
  expect(html).toContain(
    '<h1 style="margin:0 0 16px;font-size:20px;line-height:1.3">Welcome to Acme &amp; Sons</h1>',
  );
  expect(text.split("\n\n")).toEqual([
    "Hello Ann,",
    "Valid for 24 hours.",
    `Verify my address:\nhttps://app.example/verify-email#token=${TOKEN}`,
    `I did not create this account:\nhttps://app.example/not-me?account#token=${TOKEN}`,
    `Or enter this token by hand:\n${TOKEN}`,
    "Yours, Acme & Sons\n",
  ]);
  const german = render({ template: "verify-email", variables, token: TOKEN, locale: "de" });
  expect(german.subject).toBe("E-Mail-Adresse bestätigen");
  expect(render({ template: "mfa-enabled", variables }).subject).toBe(
    english.templates["mfa-enabled"].subject,
  );
});

test("MAIL_TEMPLATES: a layout contains the content and values of an e-mail, escaped", () => {
  const layout =
    '<html lang="{language}"><title>{subject}</title><b>{app}</b>{content}<i>{footer}</i>';
  const render = createRenderEmail({
    ...brand,
    mailTemplates: folderOf({ "layout.html": layout }),
  });
  const { html } = render({ template: "verify-email", variables, token: TOKEN, locale: "de" });
  expect(html).toMatch(
    /^<html lang="de"><title>E-Mail-Adresse best&#228;tigen<\/title><b>Acme &amp; Sons<\/b><p>Guten Tag Ann,<\/p>/,
  );
  expect(html).toContain(`href="https://app.example/verify-email#token=${TOKEN}"`);
});

test("MAIL_TEMPLATES: an additional language is used once it is complete", () => {
  const mailTemplates = folderOf({
    "fr.json": { ...english, words: { ...english.words, greeting: "Bonjour {name}," } },
  });
  const render = createRenderEmail({ ...brand, mailTemplates });
  const { text, html } = render({ template: "mfa-enabled", variables, locale: "fr-CA" });
  expect(text).toMatch(/^Bonjour Ann,/);
  expect(html).toContain('<html lang="fr">');
});

test("MAIL_TEMPLATES: all problems are reported together, by file and text", () => {
  const mailTemplates = folderOf({
    "en.json": {
      words: { hello: "Hi", greeting: "Hi {nick}," },
      values: { role: { guest: "guest" } },
      templates: {
        "verify-mail": { subject: "Hi" },
        "verify-email": { subject: "Hi {user}", paragraphs: [{ if: "vip", text: "{lifetime}" }] },
        "mfa-enabled": { button: "{app}" },
      },
    },
    "de.json": { templates: { "mfa-enabled": { title: "Hallo", subject: " " } } },
    "fr.json": { words: { greeting: "Bonjour {name}," } },
    "it.json": "{",
    "layout.html": "<p>{text}</p>",
    "readme.txt": "",
  });
  mkdirSync(join(mailTemplates, "nl.json"));
  let problems: string[] = [];
  try {
    readMailTexts(mailTemplates);
  } catch (error) {
    problems = (error as Error).message.split("\n");
  }
  const inFrench = problems.filter((problem) => problem.includes("fr.json: lacks "));
  expect(inFrench.length).toBeGreaterThan(100);
  expect(inFrench).toContain("MAIL_TEMPLATES: fr.json: lacks mfa-enabled: subject");
  expect(problems.filter((problem) => !inFrench.includes(problem)).sort()).toEqual(
    [
      "de.json: templates: mfa-enabled: subject: must not be blank",
      'de.json: templates: mfa-enabled: Unrecognized key: "title"',
      "en.json: mfa-enabled: there is no placeholder {app}",
      "en.json: there is no template verify-mail",
      "en.json: there is no value guest of role",
      "en.json: greeting: there is no placeholder {nick}",
      "en.json: there is no word hello",
      "en.json: verify-email: there is no placeholder {user}",
      "en.json: verify-email: there is no placeholder {vip}",
      "it.json: can't be read (no JSON)",
      "layout.html: there is no placeholder {text}",
      "layout.html: lacks {content}",
      "nl.json: can't be read (EISDIR)",
      "readme.txt: is neither layout.html nor the texts of a language, such as en.json",
    ]
      .map((problem) => `MAIL_TEMPLATES: ${problem}`)
      .sort(),
  );
});

test("MAIL_TEMPLATES: a missing folder is rejected, without its path", () => {
  expect(() => readMailTexts("/nowhere/mails")).toThrow(
    /^MAIL_TEMPLATES names no folder that can be read \(ENOENT\)$/,
  );
});
