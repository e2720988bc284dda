import MarkdownIt, { type Token } from "markdown-it";

/** Blocks of a reply, as HTML or, if that would be too expensive, as plain text. */
export type Piece = { html: string } | { text: string };

/**
 * Maximum length of a reply that is rendered, in UTF-16 code units. Longer ones are shown as plain
 * text.
 */
const MAX_LENGTH = 262_144;
/**
 * Maximum nesting depth. The parser drops deeper content, so such a block is shown as plain text.
 */
const MAX_NESTING = 50;
/**
 * Maximum number of characters that the parser reads in one pass to find the ends of links. From
 * each bracket, it reads to the end of the paragraph; 20 million characters take about 20 ms.
 */
const MAX_LINK_STEPS = 20_000_000;
/**
 * Maximum total weight of a reply's blocks, in characters: tables turn each `|` into a cell, and
 * reference links repeat a URL that is written once. This is about 8,000 elements, which a browser
 * sanitizes and lays out within 0.2 s.
 */
const MAX_WEIGHT = 400_000;
const ELEMENT_WEIGHT = 50;
/** Weight of a heading. Text with hundreds of headings is not worth rendering. */
const HEADING_WEIGHT = 2_000;

const markdown = new MarkdownIt("default", {
  html: false,
  linkify: true,
  breaks: true, // models write line breaks intentionally, as in poems and addresses
  maxNesting: MAX_NESTING,
});
markdown.linkify.set({ fuzzyLink: false }); // readme.md is not a URL
markdown.renderer.rules.image = (tokens, index) =>
  markdown.utils.escapeHtml(tokens[index]?.content ?? ""); // images are not loaded; only their description is shown
/** Cells are aligned with a class, because the page allows no inline styles. */
for (const rule of ["th_open", "td_open"]) {
  markdown.renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const token = tokens[index] as Token;
    const [, side] = /text-align:(right|center)/.exec(String(token.attrGet("style") ?? "")) ?? [];
    token.attrs = side ? [["class", side]] : [];
    return self.renderToken(tokens, index, options);
  };
}
/** Maximum length of a formula, in characters. */
const MAX_FORMULA = 1_000;
/** `$a$` and `$$a$$` become code, which is shown as a formula once KaTeX is loaded. */
markdown.inline.ruler.before("escape", "formula", (state, silent) => {
  if (state.src[state.pos] !== "$") return false;
  const mark = state.src.startsWith("$$", state.pos) ? "$$" : "$";
  const start = state.pos + mark.length;
  const end = state.src.slice(start, start + MAX_FORMULA).indexOf(mark);
  const text = state.src.slice(start, start + end);
  const isMoney =
    mark === "$" && (/^\s|\s$/.test(text) || /^\d/.test(state.src.slice(start + end + 1)));
  if (end < 1 || isMoney || text.includes("$")) return false;
  if (!silent) {
    const token = state.push("code_inline", "code", 0);
    token.content = text.trim();
    token.attrSet("class", mark === "$$" ? "formula block" : "formula");
  }
  state.pos = start + end + mark.length;
  return true;
});
markdown.core.ruler.at("inline", (state) => {
  let left = MAX_LINK_STEPS;
  for (const token of state.tokens) {
    if (token.type !== "inline") continue;
    left -= (token.content.split("[").length - 1) * token.content.length;
    token.children ??= [];
    if (left > 0) state.md.inline.parse(token.content, state.md, state.env, token.children);
    else token.children.push(asText(new state.Token("text", "", 0), token.content));
  }
});

const asText = (token: Token, content: string): Token => Object.assign(token, { content });

/** A block of a text: its tokens, and its text up to the first line of the next block. */
type Source = { tokens: Token[]; text: string };

/** The top-level blocks of a text, and whether it defines links that others may refer to. */
function parse(text: string): { sources: Source[]; hasDefinitions: boolean } {
  const env: NonNullable<Parameters<typeof markdown.parse>[1]> = {};
  const groups: Token[][] = [];
  for (const token of markdown.parse(text, env)) {
    if (token.level === 0 && token.nesting >= 0) groups.push([token]);
    else groups.at(-1)?.push(token);
  }
  const lines = text.split("\n");
  const begin = (index: number) => (index === 0 ? 0 : groups[index]?.[0]?.map?.[0]);
  const sources = groups.map((tokens, index) => {
    const own = lines.slice(begin(index), begin(index + 1));
    return { tokens, text: own.join("\n") + (index < groups.length - 1 ? "\n" : "") };
  });
  return { sources, hasDefinitions: Object.keys(env.references ?? {}).length > 0 };
}

/**
 * The weight of a block, in characters: its cost for the browser. Infinite if the parser has
 * dropped text.
 */
function weightOf(tokens: Token[]): number {
  let weight = 0;
  for (const { type, tag, nesting, level, block, attrs, children } of tokens) {
    if (block && level >= MAX_NESTING - 1) return Number.POSITIVE_INFINITY;
    const isElement = tag !== "" && nesting >= 0;
    if (isElement) weight += type === "heading_open" ? HEADING_WEIGHT : ELEMENT_WEIGHT;
    for (const [, value] of attrs ?? []) weight += String(value).length;
    if (children) weight += weightOf(children);
  }
  return weight;
}

/**
 * A Markdown reply that grows while it is streamed. The text may be hostile. Rendering takes time
 * proportional to its length, and each additional piece takes time proportional to the last two
 * blocks.
 */
export class GrowingMarkdown {
  readonly #clean: (html: string) => string;
  /** The pieces that further text cannot change, their weight, and their text. */
  #finished: Shown = NOTHING;

  /** @param clean sanitizes the HTML of a block */
  constructor(clean: (html: string) => string) {
    this.#clean = clean;
  }

  /**
   * Renders the reply so far. Unchanged pieces are the same objects as before.
   * @param given the reply so far
   */
  show(given: string): Piece[] {
    if (given.length > MAX_LENGTH) return [{ text: given }];
    const text = given.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.#finished.text)) this.#finished = NOTHING;
    let { sources, hasDefinitions } = parse(text.slice(this.#finished.text.length));
    if (hasDefinitions && this.#finished.text) {
      this.#finished = NOTHING; // a link definition also changes the blocks before it
      ({ sources } = parse(text));
    }
    const growing = hasDefinitions ? sources : sources.splice(-GROWING);
    if (!hasDefinitions) this.#finished = this.#append(sources);
    return this.#append(growing).pieces;
  }

  /**
   * Appends blocks to the finished pieces. Blocks are sanitized together, since each call costs as
   * much as a hundred elements. Blocks that are too heavy become plain text.
   */
  #append(sources: Source[]): Shown {
    const pieces = [...this.#finished.pieces];
    let { weight } = this.#finished;
    let html = "";
    const flush = () => {
      if (html) pieces.push({ html: this.#clean(html) });
      html = "";
    };
    for (const { tokens, text } of sources) {
      const more = weightOf(tokens);
      if (weight + more <= MAX_WEIGHT) {
        weight += more;
        html += markdown.renderer.render(tokens, markdown.options, {});
        continue;
      }
      flush();
      const last = pieces.at(-1);
      if (last && "text" in last) pieces.splice(-1, 1, { text: last.text + text });
      else pieces.push({ text });
    }
    flush();
    const shown = sources.map(({ text }) => text).join("");
    return { pieces, weight, text: this.#finished.text + shown };
  }
}

type Shown = { pieces: Piece[]; weight: number; text: string };
const NOTHING: Shown = { pieces: [], weight: 0, text: "" };
/**
 * Number of blocks at the end that further text may change: the last one, and the one before it if
 * the incomplete last line continues it.
 */
const GROWING = 2;
