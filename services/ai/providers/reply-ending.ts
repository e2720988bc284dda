import type { FinishReason } from "./provider.ts";

/**
 * How sure it is that a reply has ended.
 * - `open`: it goes on. If the body breaks off or goes silent, the reply is incomplete.
 * - `likely`: the finish marker came along with text and without usage. Some servers put a marker on
 *   every piece, so it takes silence to believe it.
 * - `proven`: only usage or a closing frame may follow. The reply is complete however its body ends.
 */
export type ReplyPhase = "open" | "likely" | "proven";

/**
 * What has been seen of a reply as far as it decides whether the reply has ended. A closing frame
 * (`[DONE]`, `message_stop`) and the end of the body are ends if there was a finish marker. Without
 * them the marker alone counts where it stands behind the text, since some servers put one on the
 * first, empty piece, and some on every piece.
 */
export class ReplyEnding {
  /** The finish marker, as far as it holds for the text that has come. */
  marker: FinishReason | undefined;
  hasText = false;
  /** Something came that may have been an error: a closing frame cannot stand for the marker. */
  isDoubtful = false;
  #isMarkedWithText = false;
  /** Text followed a marker that had text before it. Only a closing frame or the body's end is one. */
  #hasGoneOn = false;

  /** Adds an event: first its text, then its marker. */
  add(hasText: boolean, marker: FinishReason | undefined): void {
    if (hasText) this.#addText();
    if (!marker) return;
    if (!this.marker || hasText) this.marker = marker;
    this.#isMarkedWithText = hasText;
  }

  #addText(): void {
    if (this.marker && this.hasText) this.#hasGoneOn = true;
    else this.marker = undefined; // it belonged to the opening of the reply
    this.hasText = true;
  }

  /** @param hasUsage whether the provider has reported the usage */
  phase(hasUsage: boolean): ReplyPhase {
    if (!this.marker || !this.hasText || this.#hasGoneOn) return "open";
    return this.#isMarkedWithText && !hasUsage ? "likely" : "proven";
  }

  /** Adds a closing frame that may stand for the marker, which some servers leave out. */
  closeWithoutMarker(): void {
    if (this.hasText && !this.isDoubtful) this.marker ??= "stop";
  }
}
