import type { FinishReason } from "./provider.ts";

/**
 * How sure it is that a reply has ended, before a closing frame or the end of the body says so.
 * - `open`: it goes on. If the body breaks off or goes silent, the reply is incomplete.
 * - `doubtful`: the server has put a finish marker on every piece of text, or before more text. It may
 *   go on so: only a long silence confirms the marker, and a break is a failure.
 * - `likely`: the marker stands behind the text, or on a piece behind others without it. A long
 *   silence or a break is the end.
 * - `proven`: usage has come for the first time, with the marker or after it, in an event without
 *   text. A short silence or a break is the end. Usage that comes along with text, or came before the
 *   marker, proves nothing: it may come with every piece, as the marker may.
 */
export type ReplyPhase = "open" | "doubtful" | "likely" | "proven";

/** What an event says of the end of its reply. */
export type EndingSigns = {
  hasText: boolean;
  marker: FinishReason | undefined;
  /** The provider has reported all usage, in this event or before. */
  hasUsage: boolean;
  /** The event is the only document of a reply: no piece can follow it. */
  isWhole: boolean;
};

/**
 * What has been seen of a reply as far as it decides whether the reply has ended. A closing frame
 * (`[DONE]`, `message_stop`) and the end of the body are ends if there was a finish marker. Without
 * them a marker counts only where it stands behind the text.
 */
export class ReplyEnding {
  /** The finish marker, as far as it holds for the text that has come. */
  marker: FinishReason | undefined;
  hasText = false;
  /** Something came that may have been an error: a closing frame cannot stand for the marker. */
  isSuspect = false;
  /** Text has followed a marker that had text before it: the next marker may be no end either. */
  hasGoneOn = false;
  /** A marker came before all text. */
  #opensWithMarker = false;
  /** Text came without a marker. */
  #hasUnmarkedText = false;
  /** A marker came along with text, as with all text before. */
  #marksEveryPiece = false;
  /** The marker is older than the latest text. Only a closing frame or the body's end confirms it. */
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
      this.marker = undefined; // it belonged to the opening of the reply
    else if (this.marker) {
      this.hasGoneOn = true;
      this.#isOutdated = true;
    }
    this.hasText = true;
  }

  #addMarker(marker: FinishReason, isOnText: boolean): void {
    if (!this.marker || this.#isOutdated) this.marker = marker;
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

  /** Adds a closing frame that may stand for the marker, which some servers leave out. */
  closeWithoutMarker(): void {
    if (this.hasText && !this.isSuspect) this.marker ??= "stop";
  }
}
