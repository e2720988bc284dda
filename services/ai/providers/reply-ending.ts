import type { FinishReason } from "./provider.ts";

/**
 * How certain it is that a reply has ended, before a closing frame or the end of the body shows it.
 * - `open`: the reply continues. If the body breaks off or goes silent, the reply is incomplete.
 * - `doubtful`: the server has sent a finish marker with every chunk of text, or before more text,
 *   and may continue to do so. Only a long silence confirms the marker. A break is a failure.
 * - `likely`: the marker follows the text, or comes with a chunk after others without one. A long
 *   silence or a break is the end.
 * - `proven`: usage has been reported for the first time, with the marker or after it, in an event
 *   without text. A short silence or a break is the end. Usage together with text or before the
 *   marker proves nothing: it may come with every chunk, as the marker may.
 */
export type ReplyPhase = "open" | "doubtful" | "likely" | "proven";

/** Signs of the end of a reply in one event. */
export type EndingSigns = {
  hasText: boolean;
  marker: FinishReason | undefined;
  /** All usage has been reported, in this event or before. */
  hasUsage: boolean;
  /** The event is the only document of a reply: nothing can follow it. */
  isWhole: boolean;
};

/**
 * Collects the signs that decide whether a reply has ended. A closing frame (`[DONE]`,
 * `message_stop`) and the end of the body end the reply if there was a finish marker. Without them
 * a marker counts only if it follows the text.
 */
export class ReplyEnding {
  /** The finish marker, if it is valid for the text that has arrived. */
  marker: FinishReason | undefined;
  hasText = false;
  /** Something may have been an error: a closing frame cannot replace the marker. */
  isSuspect = false;
  /**
   * Text has followed a marker that had text before it: the next marker may not be final either.
   */
  hasGoneOn = false;
  /** A marker preceded all text. */
  #opensWithMarker = false;
  /** An event had text without a marker. */
  #hasUnmarkedText = false;
  /** Every event with text so far also had a marker. */
  #marksEveryPiece = false;
  /**
   * The marker precedes the latest text. Only a closing frame or the end of the body confirms it.
   */
  #isOutdated = false;
  #hasUsage = false;
  #isProven = false;

  /** Adds an event: first its text, then its marker, then its usage. */
  add({ hasText, marker, hasUsage, isWhole }: EndingSigns): void {
    if (hasText) this.#addText();
    if (hasText && !marker) this.#hasUnmarkedText = true;
    if (marker) this.#addMarker(marker, hasText);
    const isNewUsage = hasUsage && !this.#hasUsage;
    this.#hasUsage ||= hasUsage;
    if (isNewUsage && (!hasText || isWhole)) this.#addProof();
  }

  #addText(): void {
    this.#isProven = false;
    if (!this.hasText)
      this.marker = undefined; // it was part of the opening of the reply
    else if (this.marker) {
      this.hasGoneOn = true;
      this.#isOutdated = true;
    }
    this.hasText = true;
  }

  #addMarker(marker: FinishReason, isOnText: boolean): void {
    if (!this.marker || this.#isOutdated || marker === "length") this.marker = marker;
    this.#isOutdated = false;
    if (isOnText && !this.#hasUnmarkedText) this.#marksEveryPiece = true;
    if (!this.hasText) this.#opensWithMarker = true;
  }

  #addProof(): void {
    this.#isProven = this.phase !== "open" && !this.#marksBeforeText;
  }

  get phase(): ReplyPhase {
    if (!this.marker || !this.hasText || this.#isOutdated) return "open";
    if (this.#isProven) return "proven";
    return this.#marksEveryPiece || this.#marksBeforeText ? "doubtful" : "likely";
  }

  get #marksBeforeText(): boolean {
    return this.#opensWithMarker || this.hasGoneOn;
  }

  /** Adds a closing frame that may replace the marker, which some servers omit. */
  closeWithoutMarker(): void {
    if (this.hasText && !this.isSuspect) this.marker ??= "stop";
  }
}
