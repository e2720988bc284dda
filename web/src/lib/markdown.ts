import MarkdownIt, { type Token } from "markdown-it";

/** Blocks of a reply: as HTML or, if that would be too expensive, as plain text. */
export type Piece = { html: string } | { text: string };

/** Longer replies are shown as plain text, in UTF-16 code units. */
const MAX_LENGTH = 262_144;
/** Maximum nesting depth. The parser drops anything deeper, so such a block is shown as plain text. */
const MAX_NESTING = 50;
/**
 * Maximum cost of searching for ends of links in one pass, in characters read. From each bracket, the
 * parser reads to the end of the paragraph; 20 million characters take about 20 ms.
 */
const MAX_LINK_STEPS = 20_000_000;
/**
 * Maximum total weight of a reply's blocks, in characters. Tables create a cell for each `|`, and
 * reference links repeat a URL that occurs once. Equals about 8,000 elements, which a browser
 * sanitizes and lays out within 0.2 s.
 */
const MAX_WEIGHT = 400_000;
const ELEMENT_WEIGHT = 50;
/**
 * Weight of a heading: a Pico selector visits all elements before each heading, and 5,000 headings took
 * seconds.
 */
const HEADING_WEIGHT = 2_000;

const markdown = new MarkdownIt("default", { html: false, linkify: true, maxNesting: MAX_NESTING });
markdown.linkify.set({ fuzzyLink: false }); // readme.md is not a URL
markdown.renderer.rules.image = (tokens, index) =>
  markdown.utils.escapeHtml(tokens[index]?.content ?? ""); // images are not loaded, only their description is shown
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

/** A block of a text: its tokens, and the text from its first line to the first line of the next block. */
type Source = { tokens: Token[]; text: string };

/** The top-level blocks of a text, and whether it contains link definitions, which other blocks may use. */
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

/** Cost of a block for the browser, in characters. Infinite if the parser has dropped text. */
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
 * A Markdown reply that grows while it is streamed. The text may be hostile: the time spent on it is
 * proportional to its length, and the time for another chunk to the length of the last two blocks.
 */
export class GrowingMarkdown {
  readonly #clean: (html: string) => string;
  /** The pieces that further text cannot change, their weight, and the text that they show. */
  #finished: Shown = NOTHING;

  /** @param clean sanitizes the HTML of a block */
  constructor(clean: (html: string) => string) {
    this.#clean = clean;
  }

  /**
   * The pieces of a text. Unchanged pieces are the same objects as before.
   * @param given the reply so far
   */
  show(given: string): Piece[] {
    if (given.length > MAX_LENGTH) return [{ text: given }];
    const text = given.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.#finished.text)) this.#finished = NOTHING;
    let { sources, hasDefinitions } = parse(text.slice(this.#finished.text.length));
    if (hasDefinitions && this.#finished.text) {
      this.#finished = NOTHING; // a link definition also changes earlier blocks
      ({ sources } = parse(text));
    }
    const growing = hasDefinitions ? sources : sources.splice(-GROWING);
    if (!hasDefinitions) this.#finished = this.#append(sources);
    return this.#append(growing).pieces;
  }

  /**
   * The finished pieces plus the given blocks. Blocks are sanitized together, since each call costs as
   * much as a hundred elements. What would be too expensive for a browser becomes plain text.
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
 * Blocks at the end that further text may change: the last one, and the previous one if the last,
 * incomplete line may continue it.
 */
const GROWING = 2;
