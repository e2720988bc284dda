import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const documents = execFileSync(
  "git",
  ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
  { cwd: root },
)
  .toString()
  .trim()
  .split("\n");
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
const anchorsIn = (file: string) =>
  [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading));

/**
 * What the documents mention and `isMissing` says does not exist.
 * @param pattern finds what they mention, and its name
 */
const missingIn = (
  files: string[],
  pattern: RegExp,
  isMissing: (name: string, file: string) => boolean,
) =>
  files.flatMap((file) =>
    [...read(file).matchAll(pattern)]
      .filter(([, name = ""]) => isMissing(name, file))
      .map(([mention]) => `${file}: ${mention}`),
  );

test("Documentation: every relative link and anchor has a target", () => {
  const dead = missingIn(documents, /\]\((?!https?:)([^)]*)\)/g, (link, file) => {
    const [path, anchor] = link.split("#") as [string, string?];
    const target = path === "" ? file : join(dirname(file), path);
    return (
      !existsSync(join(root, target)) ||
      (anchor !== undefined && !anchorsIn(target).includes(anchor))
    );
  });
  expect(documents.length).toBeGreaterThan(15);
  expect(dead).toEqual([]);
});

test("Documentation: every file named as code in a document exists", () => {
  const current = documents.filter((file) => file !== "CHANGELOG.md");
  const named = /`((?:gateway|services|proto|test|bench|scripts)\/[\w./-]+)`/g;
  expect(missingIn(current, named, (path) => !existsSync(join(root, path)))).toEqual([]);
});

test("Documentation: every npm script named in a document exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  expect(missingIn(documents, /npm run ([\w:-]+)/g, (name) => !(name in scripts))).toEqual([]);
});

test("OWASP ASVS: each requirement has one known state, and the summary has the right counts", () => {
  const text = read("docs/asvs.md");
  const lines = [...text.matchAll(/^\| (\d+\.\d+\.\d+) \| [12] \| \**([\w/ ]+?)\** \| .+ \|$/gm)];
  const states = lines.map(([, , state = ""]) => state);
  const summary = [...text.matchAll(/^\| ([\w/]+(?: met)?)[^|]* \| (\d+) \|$/gm)];
  const labels: Record<string, string> = { "partly met": "partly" };
  const counted = summary.map(([, label = "", count]) => {
    const state = labels[label] ?? label;
    return { state, isRight: states.filter((each) => each === state).length === Number(count) };
  });
  const known = ["met", "partly", "not met", "operator", "n/a"];
  expect(counted).toEqual(known.map((state) => ({ state, isRight: true })));
  expect(states.filter((state) => !known.includes(state))).toEqual([]);
  expect(new Set(lines.map(([, requirement]) => requirement)).size).toBe(253);
  expect(lines.length).toBe(253);
});
