import { expect, test } from "vitest";
import { GrowingMarkdown, type Piece } from "../../../web/src/lib/markdown.ts";

const KIB = 1024;
const open = () => new GrowingMarkdown((html) => html);
const show = (text: string) => open().show(text);
const htmlOf = (pieces: Piece[]) =>
  pieces.map((piece) => ("html" in piece ? piece.html : `<as-written>${piece.text}`)).join("");

/** Below this, in ms, noise is larger than what is measured. */
const SLACK_MS = 150;

/** Processor time of some work, in ms. */
function timeOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** The least of three runs, since others use the machine too. */
const costOf = (work: () => unknown) => Math.min(...[1, 2, 3].map(() => timeOf(work)));

/** Expects that twice the length costs little more than twice the time. */
function expectLinear(work: (length: number) => unknown, kib: number): void {
  const shorter = () => work(kib * KIB);
  const longer = () => work(2 * kib * KIB);
  if (timeOf(longer) < SLACK_MS) return;
  expect(costOf(longer)).toBeLessThan(3 * costOf(shorter) + SLACK_MS);
}

/** Texts of any length that parsers of Markdown read again and again. */
const HOSTILE: Record<string, (length: number) => string> = {
  "open brackets": (length) => "[".repeat(length),
  "open images": (length) => "![".repeat(length / 2),
  "nested links": (length) => `${"[a](".repeat(length / 8)}${")".repeat(length / 2)}`,
  "brackets and a far end": (length) => `${"[a".repeat(length / 2)}](x)`,
  "brackets with backslashes": (length) => "[\\".repeat(length / 2),
  "unmatched stars": (length) => "*a".repeat(length / 2),
  "stars and underscores": (length) => "*_".repeat(length / 2),
  "stars before blanks": (length) => "**a ".repeat(length / 4),
  "dollar signs": (length) => "$a ".repeat(length / 3),
  "dollar signs that close nothing": (length) => "$ ".repeat(length / 2),
  "pairs of dollar signs": (length) => "$$a".repeat(length / 3),
  tildes: (length) => "~~a".repeat(length / 3),
  "backticks of growing length": (length) =>
    Array.from({ length: Math.sqrt(length * 2) }, (_, i) => `a${"`".repeat(i)}`).join(""),
  "open code": (length) => "a`b``".repeat(length / 5),
  "nested quotations": (length) => ">".repeat(length),
  "quotations with text": (length) => `${"> ".repeat(length / 2)}a`,
  "nested lists": (length) =>
    Array.from({ length: Math.sqrt(length) }, (_, i) => `${"  ".repeat(i)}- a`).join("\n"),
  "list signs in a line": (length) => "- ".repeat(length / 2),
  "many short paragraphs": (length) => "a\n\n".repeat(length / 3),
  "a wide table": (length) =>
    `${"|a".repeat(length / 6)}|\n${"|-".repeat(length / 6)}|\n${"|b".repeat(length / 6)}|`,
  "a narrow table": (length) => `|a|b|\n|-|-|\n${"|\n".repeat(length / 2)}`,
  "a table of rows that lack cells": (length) => {
    const columns = Math.sqrt(length) / 2;
    return `${"|a".repeat(columns)}|\n${"|-".repeat(columns)}|\n${"b\n".repeat(length / 3)}`;
  },
  headings: (length) => "# a\n".repeat(length / 4),
  "headings in a quotation": (length) => "> # a\n".repeat(length / 6),
  "underlines without a heading": (length) => "=\n".repeat(length / 2),
  "definitions of links": (length) => "[a]: b\n".repeat(length / 7),
  "a long address that many links repeat": (length) =>
    `[a]: http://${"b".repeat(length / 2)}\n\n${"[a]".repeat(length / 6)}`,
  "a long title that many links repeat": (length) =>
    `[a]: b "${"c".repeat(length / 2)}"\n\n${"[a]".repeat(length / 6)}`,
  "open tags": (length) => "<a ".repeat(length / 3),
  "open comments": (length) => "<!--".repeat(length / 4),
  entities: (length) => "&amp;&#".repeat(length / 7),
  addresses: (length) => "http://a.b/(".repeat(length / 12),
  "halves of addresses": (length) => "www._".repeat(length / 5),
  "mail addresses": (length) => "a@a.".repeat(length / 4),
  "exclamation marks": (length) => "!".repeat(length),
  backslashes: (length) => "\\".repeat(length),
  blanks: (length) => `a${" ".repeat(length)}b`,
  "one long line": (length) => "word ".repeat(length / 5),
  rules: (length) => "---\n".repeat(length / 4),
  "open fences": (length) => "```\n~~~\n".repeat(length / 8),
};

test.for(Object.keys(HOSTILE))(
  "Markdown: 64 KB of %s cost little more than twice 32 KB",
  (name) => {
    const text = HOSTILE[name] as (length: number) => string;
    expectLinear((size) => show(text(size)), 32);
  },
);

test.for(Object.keys(HOSTILE))("Markdown: the output of 64 KB of %s is bounded", (name) => {
  const html = htmlOf(show((HOSTILE[name] as (length: number) => string)(64 * KIB)));
  expect(html.length).toBeLessThan(3_000_000);
  expect(html.match(/<\w/g)?.length ?? 0).toBeLessThan(16_100);
  expect(html.match(/<h\d/g)?.length ?? 0).toBeLessThan(600); // each is compared with all before it
});

const TEXT = "A **bold** [link](http://a.test) with `code`, *stars* and [a reference][a].\n\n";

test("Markdown: rendering a streamed reply costs in proportion to its length", () => {
  const stream = (length: number) => {
    const growing = open();
    const whole = TEXT.repeat(length / TEXT.length);
    for (let end = 0; end <= whole.length; end += 256) growing.show(whole.slice(0, end));
  };
  expectLinear(stream, 64);
});

test("Markdown: a piece of a growing reply sanitizes its last blocks, and no earlier ones", () => {
  const cleaned: string[] = [];
  const growing = new GrowingMarkdown((html) => {
    cleaned.push(html);
    return html;
  });
  const before = growing.show("Some text.\n\n".repeat(10));
  cleaned.length = 0;
  const after = growing.show("Some text.\n\n".repeat(11));
  expect(after[0]).toBe(before[0]);
  expect(cleaned.join("").match(/<p>/g)).toHaveLength(3);
});

/** Texts whose pieces may mean something else once the next one has come. */
const GROWING = [
  { name: "paragraphs", text: "One\ntwo\n\nthree **four** five\n\nsix" },
  { name: "an ordered list with blank lines", text: "1. a\n\n2. b\n\n10. c\n\nText\n\n3. d" },
  { name: "lists in lists", text: "- a\n\n  b\n- c\n    - d\n\n      e\n\n* f\n\n--\n\n---\n" },
  { name: "headings by underlines", text: "Title\n===\n\nText\n---\n\nText\n\n# Title" },
  { name: "a table", text: "Text\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\nText\n\n| a |\n|-" },
  {
    name: "code",
    text: "Text\n\n```js\nlet a;\n\n\nlet b;\n```\n\n    indented\n\n    more\n\n``",
  },
  { name: "quotations", text: "> a\n> b\n\n> c\nlazy\n\ntext\n>d" },
  {
    name: "links defined later",
    text: "[a] and [b]\n\ntext\n\ntext\n\n[a]: http://a.test\n\n[b]: c",
  },
  { name: "line ends of Windows", text: "a\r\n\r\nb\r\n\r\nc\r\nd\r\n\r\ne" },
];

test.for(GROWING)("Markdown: $name in pieces are shown as they are as a whole", ({ text }) => {
  const growing = open();
  for (let end = 1; end <= text.length; end += 1) {
    const part = text.slice(0, end);
    expect(htmlOf(growing.show(part)), JSON.stringify(part)).toBe(htmlOf(show(part)));
  }
});

test("Markdown: a new text replaces the previous one", () => {
  const growing = open();
  growing.show(TEXT.repeat(5));
  expect(htmlOf(growing.show("Another\n\ntext"))).toBe("<p>Another</p>\n<p>text</p>\n");
});

const AS_WRITTEN = [
  { name: "more than 262,144 characters", text: "**a** ".repeat(50_000) },
  { name: "quotations in quotations, deeper than 48", text: `${"> ".repeat(60)}**deep**` },
  { name: "lists in lists, deeper than 24", text: `${"- ".repeat(60)}**deep**` },
];
test.for(AS_WRITTEN)("Markdown: $name are shown as source text", ({ text }) => {
  expect(show(text)).toEqual([{ text }]);
});

const MEANINGS = [
  { markdown: "<b>no</b>", html: "<p>&lt;b&gt;no&lt;/b&gt;</p>\n" },
  { markdown: "[a](javascript:alert(1))", html: "<p>[a](javascript:alert(1))</p>\n" },
  { markdown: "![a <b>](http://x.test/a.png)", html: "<p>a &lt;b&gt;</p>\n" },
  { markdown: "see readme.md", html: "<p>see readme.md</p>\n" },
  { markdown: "http://x.test", html: '<p><a href="http://x.test">http://x.test</a></p>\n' },
  { markdown: "~~no~~ *a* __b__", html: "<p><s>no</s> <em>a</em> <strong>b</strong></p>\n" },
];
test.for(MEANINGS)("Markdown: shows $markdown as $html", ({ markdown, html }) => {
  expect(htmlOf(show(markdown))).toBe(html);
});

test("table cells are aligned by classes, since the page allows no inline style", () => {
  const html = htmlOf(show("|a|b|c|\n|:-|-:|:-:|\n|1|2|3|"));
  expect(html).toContain("<td>1</td>");
  expect(html).toContain('<td class="right">2</td>');
  expect(html).toContain('<td class="center">3</td>');
  expect(html).not.toContain("style");
});

test.each([
  ["$a^2$", '<code class="formula">a^2</code>'],
  ["$$\\frac{1}{2}$$", '<code class="formula block">\\frac{1}{2}</code>'],
  ["It costs $5 or $6.", "It costs $5 or $6."],
  ["`$a$`", "<code>$a$</code>"],
])("a formula is marked, and an amount of money is not: %s", (text, html) => {
  expect(htmlOf(show(text))).toContain(html);
});
