import type { DescField, Message } from "@bufbuild/protobuf";
import type { StreamRequest, UnaryRequest } from "@connectrpc/connect";

/** The text of a field of a request that may not have been validated yet; undefined for a stream. */
export function textOf(
  req: UnaryRequest | StreamRequest,
  named: { field: DescField } | undefined,
): string | undefined {
  if (req.stream || !named) return undefined;
  const value = (req.message as Message & Record<string, unknown>)[named.field.localName];
  return typeof value === "string" ? value : undefined;
}
