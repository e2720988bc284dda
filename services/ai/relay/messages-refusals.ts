import type { Violation } from "../../platform/rpc/errors.ts";
import { isJsonObject, type Json, listOf } from "./json.ts";
import { refuse, refuseFields } from "./refusals.ts";

/**
 * Fields of the Messages API that give access to data stored by other users, or whose cost is
 * unbounded.
 */
const REFUSED = {
  container: "is not supported, because code runs at the provider",
  mcp_servers: "is not supported, because the provider would call them",
  fallbacks: "is not supported: use an alias",
  fallback_credit_token: "is not supported, because it belongs to another request",
  billing_policy: "is not supported, because the key of this server pays",
} as const;

/** Accepted values of fields whose other values have a different price. */
const HARMLESS = {
  service_tier: ["auto", "standard_only"],
  speed: ["standard"],
  inference_geo: ["global"],
} as const;

/** Blocks that carry their content with them. */
const BLOCKS: ReadonlySet<unknown> = new Set([
  "text",
  "image",
  "document",
  "search_result",
  "thinking",
  "redacted_thinking",
  "tool_use",
  "tool_result",
  "tool_reference",
  "compaction",
]);

/** The violations for which a body of Anthropic's Messages API is rejected. */
export const messagesRefusals = (body: Json): Violation[] => [
  ...refuseFields(body, REFUSED, HARMLESS),
  ...listOf(body.tools).flatMap((tool, index) => toolRefusals(tool, `tools[${index}]`)),
  ...listOf(body.messages).flatMap((message, index) =>
    isJsonObject(message) ? blockRefusals(message.content, `messages[${index}].content`) : [],
  ),
  ...blockRefusals(body.system, "system"),
];

/** Tools without a type, or with `custom`, have a schema from the client. */
const toolRefusals = (tool: unknown, at: string): Violation[] =>
  isJsonObject(tool) && tool.type !== undefined && tool.type !== null && tool.type !== "custom"
    ? [refuse(`${at}.type`, "is supported only as custom, for tools with your own schema")]
    : [];

/** Content is text or a list of blocks, and so is the content of results and documents. */
function blockRefusals(content: unknown, at: string): Violation[] {
  return listOf(content).flatMap((block, index) => {
    const path = `${at}[${index}]`;
    if (!isJsonObject(block)) return [];
    if (!BLOCKS.has(block.type))
      return [refuse(`${path}.type`, "is not supported, because its content is at the provider")];
    const source = isJsonObject(block.source) ? block.source : {};
    const isFile = source.type === "file" || (source.file_id ?? null) !== null;
    const isRemote = block.type === "document" && source.type === "url";
    return [
      ...(isRemote
        ? [refuse(`${path}.source`, "is not supported as a URL: send its content instead")]
        : []),
      ...(isFile
        ? [refuse(`${path}.source`, "is not supported as a file: send its content instead")]
        : []),
      ...blockRefusals(source.content, `${path}.source.content`),
      ...(block.type === "tool_result" ? blockRefusals(block.content, `${path}.content`) : []),
    ];
  });
}
