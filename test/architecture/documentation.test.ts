import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { comments } from "../../gen/comments.ts";
import { UNCLEAR } from "../support/sources.ts";

const root = join(import.meta.dirname, "../..");
const documents = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"], { cwd: root })
  .toString()
  .trim()
  .split("\n");
const read = (file: string) => readFileSync(join(root, file), "utf8");

const MAX_WORDS = 25;

/** Text of a document: no code, no tables, links by their text. */
const proseOf = (markdown: string) =>
  markdown
    .replace(/```[\s\S]*?```/g, "")
    .replace(/^\|.*$|^ {4}.*$/gm, "")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/`[^`]*`/g, "x");
const paragraphsOf = (text: string) => text.split(/\n\s*\n|\n(?=\s*(?:[-#]|\d+\.) ?)/);
const sentencesOf = (paragraph: string) => paragraph.replace(/\s+/g, " ").split(/(?<=[.:;?!])\s/);
const isLong = (sentence: string) => sentence.split(" ").length > MAX_WORDS;
/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
const anchorsIn = (file: string) =>
  [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));

/** What the documents mention and `isMissing` says does not exist. @param pattern finds what they mention, and its name */
const missingIn = (files: string[], pattern: RegExp, isMissing: (name: string, file: string) => boolean) =>
  files.flatMap((file) =>
    [...read(file).matchAll(pattern)]
      .filter(([, name = ""]) => isMissing(name, file))
      .map(([mention]) => `${file}: ${mention}`),
  );

test("Documentation: every relative link leads to a file, and its anchor to a heading", () => {
  const dead = missingIn(documents, /\]\((?!https?:)([^)]*)\)/g, (link, file) => {
    const [path, anchor] = link.split("#") as [string, string?];
    const target = path === "" ? file : join(dirname(file), path);
    return !existsSync(join(root, target)) || (anchor !== undefined && !anchorsIn(target).includes(anchor));
  });
  expect(documents.length).toBeGreaterThan(15);
  expect(dead).toEqual([]);
});

test("Documentation: every file that a document names in code exists", () => {
  const current = documents.filter((file) => file !== "CHANGELOG.md");
  const named = /`((?:gateway|services|proto|test|bench|scripts)\/[\w./-]+)`/g;
  expect(missingIn(current, named, (path) => !existsSync(join(root, path)))).toEqual([]);
});

test("Documentation: every npm script that a document names exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  expect(missingIn(documents, /npm run ([\w:-]+)/g, (name) => !(name in scripts))).toEqual([]);
});

test("Documentation: README has at most 110 lines, a decision record at most 40", () => {
  const lines = (file: string) => read(file).split("\n").length - 1;
  expect(lines("README.md")).toBeLessThanOrEqual(110);
  const records = documents.filter((file) => file.startsWith("docs/decisions/"));
  expect(records.filter((file) => lines(file) > 40)).toEqual([]);
});

test("Documentation: documents and proto comments are plain English, at most 25 words a sentence", () => {
  const texts = [...documents.map((file) => [file, proseOf(read(file))] as const), ...Object.entries(comments)];
  const faults = texts.flatMap(([name, text]) =>
    paragraphsOf(text)
      .flatMap(sentencesOf)
      .filter((sentence) => UNCLEAR.test(sentence) || isLong(sentence))
      .map((sentence) => `${name}: ${sentence}`),
  );
  expect(faults).toEqual([]);
});
