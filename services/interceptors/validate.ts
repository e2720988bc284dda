import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import { validateMessage } from "../platform/validation.ts";

/** Checks every request against the constraints of its proto. */
export const validate: Interceptor = (next) => (req) => {
  if (req.method.input.fields.length === 0) return next(req);
  if (req.stream) return next({ ...req, message: validated(req.method.input, req.message) });
  validateMessage(req.method.input, req.message);
  return next(req);
};

async function* validated<T extends Message>(schema: DescMessage, messages: AsyncIterable<T>): AsyncIterable<T> {
  for await (const message of messages) {
    validateMessage(schema, message);
    yield message;
  }
}
