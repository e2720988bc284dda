import type { HLJSApi, LanguageFn } from "highlight.js";

type Module = { default: LanguageFn };

/** The highlighted languages, by the names that models use. */
const LANGUAGES: Record<string, () => Promise<Module>> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  csharp: () => import("highlight.js/lib/languages/csharp"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  go: () => import("highlight.js/lib/languages/go"),
  html: () => import("highlight.js/lib/languages/xml"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  kotlin: () => import("highlight.js/lib/languages/kotlin"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  php: () => import("highlight.js/lib/languages/php"),
  python: () => import("highlight.js/lib/languages/python"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  sql: () => import("highlight.js/lib/languages/sql"),
  swift: () => import("highlight.js/lib/languages/swift"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};
const ALIASES: Record<string, string> = {
  "c++": "cpp",
  "c#": "csharp",
  js: "javascript",
  jsx: "javascript",
  md: "markdown",
  py: "python",
  rb: "ruby",
  rs: "rust",
  sh: "bash",
  shell: "bash",
  ts: "typescript",
  tsx: "typescript",
  yml: "yaml",
};
/** Maximum length of highlighted code, in UTF-16 code units. */
const MAX_LENGTH = 30_000;

let core: Promise<HLJSApi> | undefined;

/**
 * Highlights code. The library and the grammar of a language are loaded with its first block.
 * @returns HTML that contains only spans and escaped text; undefined for other languages
 */
export async function highlight(code: string, language: string): Promise<string | undefined> {
  const name = ALIASES[language.toLowerCase()] ?? language.toLowerCase();
  const load = Object.hasOwn(LANGUAGES, name) ? LANGUAGES[name] : undefined;
  if (!load || code.length > MAX_LENGTH) return undefined;
  core ??= import("highlight.js/lib/core").then((module) => module.default);
  const [highlighter, { default: grammar }] = await Promise.all([core, load()]);
  if (!highlighter.getLanguage(name)) highlighter.registerLanguage(name, grammar);
  return highlighter.highlight(code, { language: name, ignoreIllegals: true }).value;
}
