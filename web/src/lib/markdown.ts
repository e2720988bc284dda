import MarkdownIt, { type Token } from "markdown-it";

/** A piece of a reply: as HTML, or where that would cost too much, as it was written. */
export type Block = { html: string } | { text: string };

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
 * links by reference repeat an address that stands once. It is some 20,000 elements, which a
 * browser sanitizes and lays out within 0.2 s.
 */
const MAX_WEIGHT = 1_000_000;
const ELEMENT_WEIGHT = 50;

const markdown = new MarkdownIt("default", { html: false, linkify: true, maxNesting: MAX_NESTING });
markdown.linkify.set({ fuzzyLink: false }); // readme.md is no address
markdown.renderer.rules.image = (tokens, index) =>
  markdown.utils.escapeHtml(tokens[index]?.content ?? ""); // nothing is loaded: the description remains
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
  for (const { level, block, attrs, children } of tokens) {
    if (block && level >= MAX_NESTING - 1) return Number.POSITIVE_INFINITY;
    weight += ELEMENT_WEIGHT;
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
  /** The blocks that further text can't change, what they weigh, and the text that they show. */
  #finished: Shown = NOTHING;

  /** @param clean makes the HTML of a block safe */
  constructor(clean: (html: string) => string) {
    this.#clean = clean;
  }

  /**
   * The blocks of a text. Those that are as before are the same objects.
   * @param given the reply so far
   */
  show(given: string): Block[] {
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
    return this.#append(growing).blocks;
  }

  /** The finished blocks and these. What a browser can't bear is plain text, in one piece. */
  #append(sources: Source[]): Shown {
    const blocks = [...this.#finished.blocks];
    let { weight } = this.#finished;
    for (const { tokens, text } of sources) {
      const more = weightOf(tokens);
      const last = blocks.at(-1);
      if (weight + more <= MAX_WEIGHT) {
        weight += more;
        blocks.push({ html: this.#clean(markdown.renderer.render(tokens, markdown.options, {})) });
      } else if (last && "text" in last) blocks.splice(-1, 1, { text: last.text + text });
      else blocks.push({ text });
    }
    const shown = sources.map(({ text }) => text).join("");
    return { blocks, weight, text: this.#finished.text + shown };
  }
}

type Shown = { blocks: Block[]; weight: number; text: string };
const NOTHING: Shown = { blocks: [], weight: 0, text: "" };
/**
 * Blocks at the end that further text may change: the last one, and the one before if the last line,
 * of which only a part has come, continues it.
 */
const GROWING = 2;
