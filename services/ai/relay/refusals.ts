import type { Violation } from "../../platform/rpc/errors.ts";
import type { Json } from "./json.ts";

/** A field that is valid but not passed on. */
export const refuse = (field: string, message: string): Violation => ({
  field,
  message,
  unsupported: true,
});

/**
 * Refuses fields of a body. Null counts as absent.
 * @param refused messages by the names of fields
 * @param harmless the values that may be passed on, by the names of other fields
 */
export function refuseFields(
  body: Json,
  refused: Readonly<Record<string, string>>,
  harmless: Readonly<Record<string, readonly unknown[]>>,
): Violation[] {
  const isGiven = (field: string) => (body[field] ?? null) !== null;
  return [
    ...Object.entries(refused).flatMap(([field, message]) =>
      isGiven(field) ? [refuse(field, message)] : [],
    ),
    ...Object.entries(harmless).flatMap(([field, values]) =>
      isGiven(field) && !values.includes(body[field])
        ? [refuse(field, `is supported only as ${values.join(" or ")}`)]
        : [],
    ),
  ];
}
