import type { Piece } from "./provider.ts";

const NONE: readonly Piece[] = [];

/**
 * Pieces of a reply that wait for their reader, in order. Adjacent pieces of the same kind become
 * one. Half of a surrogate pair waits for its other half, which comes with the next piece of its
 * kind.
 */
export class PieceQueue {
  #pieces: Piece[] = [];
  /**
   * The latest piece of each kind or tool call that ends in half a character, without that half.
   */
  readonly #split = new Map<string | number, { half: string; piece: Piece }>();

  add(piece: Piece): void {
    const key = keyOf(piece);
    const text = (this.#split.get(key)?.half ?? "") + textOf(piece);
    this.#split.delete(key);
    const isSplit = isHighSurrogate(text.charCodeAt(text.length - 1));
    if (isSplit) this.#split.set(key, { half: text.slice(-1), piece });
    const whole = (isSplit ? text.slice(0, -1) : text).toWellFormed();
    const begins = piece.kind === "tool-call" && piece.id !== undefined;
    const last = this.#pieces.at(-1);
    if (whole === "" && !begins) return;
    if (last && keyOf(last) === key && !begins)
      this.#pieces[this.#pieces.length - 1] = withText(last, textOf(last) + whole);
    else this.#pieces.push(withText(piece, whole));
  }

  /**
   * Takes all pieces.
   * @param isEnd whether nothing follows: half a character is then a replacement character
   */
  take(isEnd: boolean): readonly Piece[] {
    if (isEnd && this.#split.size > 0) this.#addHalves();
    if (this.#pieces.length === 0) return NONE;
    const pieces = this.#pieces;
    this.#pieces = [];
    return pieces;
  }

  #addHalves(): void {
    const halves = [...this.#split.values()];
    this.#split.clear();
    for (const { piece, half } of halves)
      this.#pieces.push(withText(rest(piece), half.toWellFormed()));
  }
}

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff;

/** What the pieces of one text have in common. */
const keyOf = (piece: Piece) => (piece.kind === "tool-call" ? piece.index : piece.kind);

const textOf = (piece: Piece) => (piece.kind === "tool-call" ? piece.arguments : piece.text);

const withText = (piece: Piece, text: string): Piece =>
  piece.kind === "tool-call" ? { ...piece, arguments: text } : { ...piece, text };

/** A piece of a tool call after the first. */
const rest = (piece: Piece): Piece =>
  piece.kind === "tool-call" ? { kind: "tool-call", index: piece.index, arguments: "" } : piece;
