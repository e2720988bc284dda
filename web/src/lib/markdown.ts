import MarkdownIt, { type Token } from "markdown-it";

/** Blocks of a reply: as HTML, or where that would cost too much, as they were written. */
export type Piece = { html: string } | { text: string };

/** Replies that are longer, in UTF-16 code units, are shown as they were written. */
const MAX_LENGTH = 262_144;
/** The parser drops what is nested deeper: such a block is shown as it was written. */
const MAX_NESTING = 50;
/**
 * What the search for the ends of links may cost in one pass, in characters read. The parser reads
 * on from each bracket to the end of its paragraph; 20 million characters take some 20 ms.
 */
const MAX_LINK_STEPS = 20_000_000;
/**
 * What the blocks of a reply may weigh together, in characters: tables make a cell of each `|`, and
 * links by reference repeat an address that stands once. It is some 8,000 elements: a browser makes
 * them safe and lays them out within 0.2 s.
 */
const MAX_WEIGHT = 400_000;
const ELEMENT_WEIGHT = 50;
/** Headings stand out: hundreds of them are no text that anybody wants to read. */
const HEADING_WEIGHT = 2_000;

const markdown = new MarkdownIt("default", {
  html: false,
  linkify: true,
  breaks: true, // models mean the ends of their lines, as in poems and addresses
  maxNesting: MAX_NESTING,
});
markdown.linkify.set({ fuzzyLink: false }); // readme.md is no address
markdown.renderer.rules.image = (tokens, index) =>
  markdown.utils.escapeHtml(tokens[index]?.content ?? ""); // nothing is loaded: the description remains
/** Cells say by a class how they are aligned: the page allows no inline style. */
for (const rule of ["th_open", "td_open"]) {
  markdown.renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const token = tokens[index] as Token;
    const [, side] = /text-align:(right|center)/.exec(String(token.attrGet("style") ?? "")) ?? [];
    token.attrs = side ? [["class", side]] : [];
    return self.renderToken(tokens, index, options);
  };
}
/** A formula is looked for so far ahead, in characters. */
const MAX_FORMULA = 1_000;
/** `$a$` and `$$a$$` become code, which is shown as a formula once KaTeX is there. */
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

/** A block of a text: its tokens, and the text from its first line to that of the next block. */
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

/** What a block costs the browser, in characters. It is infinite if the parser has left text out. */
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
 * A reply in Markdown that grows while it is streamed. The text may be hostile: the time for it is
 * in proportion to its length, and the time for a further piece to that of the last two blocks.
 */
export class GrowingMarkdown {
  readonly #clean: (html: string) => string;
  /** The pieces that further text can't change, what they weigh, and the text that they show. */
  #finished: Shown = NOTHING;

  /** @param clean makes the HTML of a block safe */
  constructor(clean: (html: string) => string) {
    this.#clean = clean;
  }

  /**
   * The pieces of a text. Those that are as before are the same objects.
   * @param given the reply so far
   */
  show(given: string): Piece[] {
    if (given.length > MAX_LENGTH) return [{ text: given }];
    const text = given.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.#finished.text)) this.#finished = NOTHING;
    let { sources, hasDefinitions } = parse(text.slice(this.#finished.text.length));
    if (hasDefinitions && this.#finished.text) {
      this.#finished = NOTHING; // a definition of a link changes the blocks before it, too
      ({ sources } = parse(text));
    }
    const growing = hasDefinitions ? sources : sources.splice(-GROWING);
    if (!hasDefinitions) this.#finished = this.#append(sources);
    return this.#append(growing).pieces;
  }

  /**
   * The finished pieces and these blocks. Blocks are made safe together, since each time costs as
   * much as a hundred elements. What a browser can't bear is plain text.
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
 * Blocks at the end that further text may change: the last one, and the one before if the last line,
 * of which only a part has come, continues it.
 */
const GROWING = 2;
