import type { DescField, Message } from "@bufbuild/protobuf";
import type { StreamRequest, UnaryRequest } from "@connectrpc/connect";

/**
 * The text of a request field; undefined for a stream. The request may not have been validated yet.
 */
export function textOf(
  req: UnaryRequest | StreamRequest,
  named: { field: DescField } | undefined,
): string | undefined {
  if (req.stream || !named) return undefined;
  const value = (req.message as Message & Record<string, unknown>)[named.field.localName];
  return typeof value === "string" ? value : undefined;
}
