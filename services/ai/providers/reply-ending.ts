import type { FinishReason } from "./provider.ts";

/**
 * How sure it is that a reply has ended, before a closing frame or the end of the body says so.
 * - `open`: it goes on. If the body breaks off or goes silent, the reply is incomplete.
 * - `doubtful`: the server has put a finish marker on a piece of text, or before any. It may do so on
 *   every piece: only a long silence confirms the marker, and a break is a failure.
 * - `likely`: the marker stands alone behind the text. A long silence or a break is the end.
 * - `proven`: usage has come too. A short silence or a break is the end.
 */
export type ReplyPhase = "open" | "doubtful" | "likely" | "proven";

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
  /** A marker came before any text, or along with it. */
  #marksEarly = false;
  /** Text followed a marker that had text before it. Only a closing frame or the body's end is one. */
  #hasGoneOn = false;

  /** Adds an event: first its text, then its marker. */
  add(hasText: boolean, marker: FinishReason | undefined): void {
    if (hasText) this.#addText();
    if (!marker) return;
    if (!this.marker || hasText) this.marker = marker;
    if (hasText || !this.hasText) this.#marksEarly = true;
  }

  #addText(): void {
    if (this.marker && this.hasText) this.#hasGoneOn = true;
    else this.marker = undefined; // it belonged to the opening of the reply
    this.hasText = true;
  }

  /** @param hasUsage whether the provider has reported the usage */
  phase(hasUsage: boolean): ReplyPhase {
    if (!this.marker || !this.hasText || this.#hasGoneOn) return "open";
    if (hasUsage) return "proven";
    return this.#marksEarly ? "doubtful" : "likely";
  }

  /** Adds a closing frame that may stand for the marker, which some servers leave out. */
  closeWithoutMarker(): void {
    if (this.hasText && !this.isSuspect) this.marker ??= "stop";
  }
}
