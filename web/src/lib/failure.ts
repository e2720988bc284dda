import { GatehouseError } from "@gatehouse/client";
import { violationKey } from "../messages/index.ts";
import { isMessage, t } from "./language.svelte.ts";

/** A failure as shown to the user. */
export type Failure = {
  code: string;
  message: string;
  /** Messages by field. */
  violations: Record<string, string>;
  /** Seconds after which a retry makes sense. */
  retryAfter: number | undefined;
  /** The service's message, in English. It may contain details meant for operators. */
  detail: string | undefined;
};

/** The message for an error, and the violations by field. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof GatehouseError)) {
    return {
      code: "UNKNOWN",
      message: t("errors.INTERNAL"),
      violations: {},
      retryAfter: undefined,
      detail: undefined,
    };
  }
  const { status, message: detail } = thrown;
  const code = thrown.streamCode ?? thrown.code;
  const violations: Record<string, string> = {};
  for (const each of thrown.violations) {
    violations[each.field] = [violations[each.field], sentence(each.message)]
      .filter(Boolean)
      .join(" ");
  }
  const isTimed = status === 423 || status === 429 || status === 503;
  const retryAfter = isTimed ? thrown.retryAfter : undefined;
  return { code, message: sentenceOf(code, detail), violations, retryAfter, detail };
}

/**
 * The message for an error code, in the language of the page. The service's own message is in
 * English and may be meant for operators, so it is not shown.
 * @param detail the service's message, which contains the kind of a provider's failure
 */
export function sentenceOf(code: string, detail: string | undefined): string {
  const key = `errors.${code}`;
  if (code === "PROVIDER_ERROR") return sentenceOfProvider(detail) ?? t("errors.PROVIDER_ERROR");
  return t(isMessage(key) ? key : "errors.UNEXPECTED_RESPONSE");
}

function sentenceOfProvider(detail = ""): string | undefined {
  const [, provider = "", kind] = /^The AI provider (.+) failed: (.+)\.$/.exec(detail) ?? [];
  const key = `provider.${kind}`;
  return isMessage(key) ? t("chat.providerFailed", { provider, kind: t(key) }) : undefined;
}

/** A violation as a sentence, in the language of the page if the catalogue contains it. */
function sentence(message: string): string {
  const key = violationKey(message);
  const text = isMessage(key)
    ? t(key, Object.fromEntries((message.match(/\d+/g) ?? []).entries()))
    : message;
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}
