import { GatehouseError } from "@gatehouse/client";
import { violationKey } from "../messages/index.ts";
import { isMessage, t } from "./language.svelte.ts";

/** What went wrong, as shown. */
export type Failure = {
  code: string;
  message: string;
  /** Messages by field. */
  violations: Record<string, string>;
  /** Seconds until another attempt makes sense. */
  retryAfter: number | undefined;
};

/** The sentence of an error, and what belongs to its fields. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof GatehouseError)) {
    return {
      code: "UNKNOWN",
      message: t("errors.INTERNAL"),
      violations: {},
      retryAfter: undefined,
    };
  }
  const { code, status } = thrown;
  const key = `errors.${code}`;
  let message = isMessage(key) ? t(key) : thrown.message;
  if (code === "STREAM_ERROR") message += ` ${thrown.message}`; // the service's reason, of any kind
  const violations: Record<string, string> = {};
  for (const each of thrown.violations) {
    violations[each.field] = [violations[each.field], sentence(each.message)]
      .filter(Boolean)
      .join(", ");
  }
  const isTimed = status === 423 || status === 429 || status === 503;
  return { code, message, violations, retryAfter: isTimed ? thrown.retryAfter : undefined };
}

/** A violation in the language of the page, where the catalogue has it. */
function sentence(message: string): string {
  const key = violationKey(message);
  return isMessage(key)
    ? t(key, Object.fromEntries((message.match(/\d+/g) ?? []).entries()))
    : message;
}
