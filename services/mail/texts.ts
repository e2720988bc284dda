import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import german from "./texts/de.json" with { type: "json" };
import english from "./texts/en.json" with { type: "json" };

/** Names of the e-mails we send, as shown in the e-mail log. */
export type TemplateName = keyof typeof english.templates;

/** Whether this release has an e-mail of a name. */
export const isTemplate = (name: string): name is TemplateName =>
  Object.hasOwn(english.templates, name);

/** A paragraph, possibly one that appears only if a placeholder has a value. */
type Paragraph = string | { if: string; text: string };

/** The texts of an e-mail. The preheader is shown next to the subject in the list of e-mails. */
type Template = {
  subject: string;
  preheader: string;
  paragraphs: Paragraph[];
  button?: string;
  /** The text of a second link. */
  other?: string;
};

/** The texts of a language. `values` are the texts for values of placeholders, by placeholder. */
export type Texts = {
  words: Record<keyof typeof english.words, string>;
  values: Record<string, Record<string, string>>;
  templates: Record<TemplateName, Template>;
};

/** What e-mails are made of: texts by language, and the HTML around the content. */
export type MailTexts = { languages: Record<string, Texts>; layout: string };

const SHIPPED: Record<string, Texts> = { en: english, de: german };
const LAYOUT = "layout.html";
/** A placeholder in a text or in the layout. */
export const PLACEHOLDER = /\{(\w+)\}/g;
const LAYOUT_PLACEHOLDERS = [
  "language",
  "subject",
  "preheader",
  "logo",
  "app",
  "content",
  "footer",
] as const;
/** Values of a layout. */
export type LayoutValues = Record<(typeof LAYOUT_PLACEHOLDERS)[number], string>;
/** Placeholders that every template may have. */
const EVERYWHERE = ["app"];
const WORDS_PLACEHOLDERS: { [word in keyof Texts["words"]]?: string[] } = {
  greeting: ["name"],
  signature: ["app"],
};

const text = z.string().refine((given) => given.trim() !== "", "must not be blank");
const paragraph = z.union([text, z.strictObject({ if: text, text })], {
  error: "must be a text, or an object with `if` and `text`",
});
const template = z
  .strictObject({
    subject: text.refine((given) => !/[\r\n]/.test(given), "must be one line"),
    preheader: text,
    paragraphs: z.array(paragraph).min(1),
    button: text,
    other: text,
  })
  .partial();
const file = z.strictObject({
  words: z.record(z.string(), text).default({}),
  values: z.record(z.string(), z.record(z.string(), text)).default({}),
  templates: z.record(z.string(), template).default({}),
});
type Given = z.output<typeof file>;

/**
 * Reads the folder of `MAIL_TEMPLATES`: `layout.html`, and a file of texts per language, such as
 * `en.json`, which replaces what it has of the shipped texts. A language that is not shipped needs
 * all of them.
 * @throws Error for operators, with a line per problem
 */
export function readMailTexts(folder: string | undefined): MailTexts {
  const problems: string[] = [];
  const languages = { ...SHIPPED };
  let layout = readFileSync(new URL(LAYOUT, import.meta.url), "utf8");
  for (const name of namesIn(folder)) {
    const report = (problem: string) => problems.push(`MAIL_TEMPLATES: ${name}: ${problem}`);
    const [, language] = /^([a-z]{2,3})\.json$/.exec(name) ?? [];
    try {
      const content = readFileSync(join(folder ?? "", name), "utf8");
      if (name === LAYOUT) layout = checkLayout(content, report);
      else if (language) languages[language] = readTexts(language, content, report);
      else report(`is neither ${LAYOUT} nor the texts of a language, such as en.json`);
    } catch (error) {
      report(`can't be read (${(error as NodeJS.ErrnoException).code ?? "no JSON"})`);
    }
  }
  if (problems.length > 0) throw new Error(problems.join("\n"));
  return { languages, layout };
}

/**
 * The files of a folder. Hidden ones are not ours: Kubernetes keeps its own next to those of a
 * volume.
 */
function namesIn(folder: string | undefined): string[] {
  if (folder === undefined) return [];
  try {
    return readdirSync(folder).filter((name) => !name.startsWith("."));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(`MAIL_TEMPLATES names no folder that can be read (${code})`);
  }
}

type Report = (problem: string) => void;

function checkLayout(layout: string, report: Report): string {
  reportUnknown(layout, LAYOUT_PLACEHOLDERS, report);
  if (!layout.includes("{content}")) report("lacks {content}");
  return layout;
}

function readTexts(language: string, content: string, report: Report): Texts {
  const { data, error } = file.safeParse(JSON.parse(content));
  const shipped = SHIPPED[language];
  if (!data) {
    for (const { path, message } of error.issues) report([...path, message].join(": "));
    return shipped ?? english;
  }
  reportFaults(data, report);
  if (!shipped) reportMissing(data, report);
  return merge(data, shipped);
}

/** Reports names and placeholders that no shipped text has. */
function reportFaults({ words, values, templates }: Given, report: Report): void {
  reportWords(words, report);
  reportValues(values, report);
  for (const [name, given] of Object.entries(templates)) {
    if (!isTemplate(name)) {
      report(`there is no template ${name}`);
      continue;
    }
    for (const problem of unknownIn(given, placeholdersOf(name))) report(`${name}: ${problem}`);
  }
}

function reportWords(words: Given["words"], report: Report): void {
  for (const [name, given] of Object.entries(words)) {
    if (!Object.hasOwn(english.words, name)) report(`there is no word ${name}`);
    const known = WORDS_PLACEHOLDERS[name as keyof Texts["words"]] ?? [];
    reportUnknown(given, known, (problem) => report(`${name}: ${problem}`));
  }
}

function reportValues(values: Given["values"], report: Report): void {
  const shipped: Record<string, object> = english.values;
  for (const [name, given] of Object.entries(values)) {
    for (const value of Object.keys(given))
      if (!Object.hasOwn(shipped[name] ?? {}, value))
        report(`there is no value ${value} of ${name}`);
  }
}

/** Reports what an additional language lacks. */
function reportMissing({ words, values, templates }: Given, report: Report): void {
  const all = [
    ...Object.keys(english.words).map((name) => [name, words[name]]),
    ...Object.entries(english.values).flatMap(([name, known]) =>
      Object.keys(known).map((value) => [`${name}: ${value}`, values[name]?.[value]]),
    ),
    ...Object.entries(english.templates).flatMap(([name, known]) =>
      Object.keys(known).map((part) => [
        `${name}: ${part}`,
        templates[name]?.[part as keyof Template],
      ]),
    ),
  ];
  for (const [name, given] of all) if (given === undefined) report(`lacks ${name}`);
}

function merge({ words, values, templates }: Given, shipped: Texts | undefined): Texts {
  const names = Object.keys(english.templates) as TemplateName[];
  return {
    words: { ...shipped?.words, ...words } as Texts["words"],
    values: Object.fromEntries(
      Object.keys(english.values).map((name) => [
        name,
        { ...shipped?.values[name], ...values[name] },
      ]),
    ),
    templates: Object.fromEntries(
      names.map((name) => [name, { ...shipped?.templates[name], ...templates[name] }]),
    ) as Texts["templates"],
  };
}

/** The placeholders that have a value in an e-mail, as far as the shipped texts use them. */
function placeholdersOf(name: TemplateName): string[] {
  const { subject, preheader, paragraphs } = english.templates[name] as Template;
  const used = paragraphs.flatMap((each) =>
    typeof each === "string" ? [each] : [each.text, `{${each.if}}`],
  );
  return [...EVERYWHERE, ...[subject, preheader, ...used].flatMap(placeholdersIn)];
}

const placeholdersIn = (given: string): string[] =>
  [...given.matchAll(PLACEHOLDER)].map(([, name = ""]) => name);

function unknownIn(given: Partial<z.output<typeof template>>, known: readonly string[]): string[] {
  const problems: string[] = [];
  const { subject = "", preheader = "", paragraphs = [], button = "", other = "" } = given;
  const report: Report = (problem) => problems.push(problem);
  for (const each of [subject, preheader]) reportUnknown(each, known, report);
  for (const each of paragraphs) {
    if (typeof each === "string") reportUnknown(each, known, report);
    else reportUnknown(`{${each.if}} ${each.text}`, known, report);
  }
  reportUnknown(button + other, [], report);
  return problems;
}

function reportUnknown(given: string, known: readonly string[], report: Report): void {
  for (const name of new Set(placeholdersIn(given)))
    if (!known.includes(name)) report(`there is no placeholder {${name}}`);
}
