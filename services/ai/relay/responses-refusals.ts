import type { Violation } from "../../platform/rpc/errors.ts";
import { isJsonObject, type Json, listOf } from "./json.ts";
import { refuse, refuseFields } from "./refusals.ts";

const STORED = "is not supported, because responses are not stored";

/**
 * Fields of the Responses API that give access to data stored by other users, or whose cost is
 * unbounded.
 */
const REFUSED = {
  previous_response_id: `${STORED}: send the whole conversation`,
  conversation: `${STORED}: send the whole conversation`,
  background_options: STORED,
  prompt: "is not supported, because prompts are stored at the provider: send instructions",
  access_programs: "is not supported, because they belong to the key of this server",
} as const;

/** Accepted values of fields whose other values are rejected. */
const HARMLESS = {
  background: [false],
  store: [false],
  service_tier: ["auto", "default"], // the others have prices of their own
} as const;

/** Tools that the client runs: functions, and tools that take free text. */
const TOOLS: ReadonlySet<unknown> = new Set(["function", "custom"]);

/** Items that carry their content with them. A message needs no type. */
const ITEMS: ReadonlySet<unknown> = new Set([
  undefined,
  "message",
  "reasoning",
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "additional_tools",
  "compaction",
]);

/** The violations for which a body of OpenAI's Responses API is rejected. */
export const responsesRefusals = (body: Json): Violation[] => [
  ...refuseFields(body, REFUSED, HARMLESS),
  ...cacheRefusals(body.prompt_cache_options, "prompt_cache_options"),
  ...toolRefusals(body.tools, "tools"),
  ...listOf(body.input).flatMap((item, index) => itemRefusals(item, `input[${index}]`)),
];

/** A namespace is a list of tools. */
function toolRefusals(tools: unknown, at: string): Violation[] {
  return listOf(tools).flatMap((tool, index) => {
    const path = `${at}[${index}]`;
    if (!isJsonObject(tool) || TOOLS.has(tool.type)) return [];
    return tool.type === "namespace"
      ? toolRefusals(tool.tools, `${path}.tools`)
      : [refuse(`${path}.type`, "is supported only as function or custom")];
  });
}

/** A longer cache lifetime has a different price, which the counts of the reply do not show. */
const CACHE_LIVES: ReadonlySet<unknown> = new Set([undefined, null, "30m"]);

function cacheRefusals(options: unknown, at: string): Violation[] {
  if (!isJsonObject(options)) return [];
  return [
    ...(CACHE_LIVES.has(options.ttl)
      ? []
      : [
          refuse(
            `${at}.ttl`,
            "is supported only as 30m, because other lifetimes have a different price",
          ),
        ]),
    ...((options.comparison_response_id ?? null) === null
      ? []
      : [refuse(`${at}.comparison_response_id`, STORED)]),
  ];
}

function itemRefusals(item: unknown, at: string): Violation[] {
  if (!isJsonObject(item)) return [];
  if (!ITEMS.has(item.type))
    return [refuse(`${at}.type`, "is not supported, because its content is at the provider")];
  return [
    ...toolRefusals(item.tools, `${at}.tools`),
    ...partRefusals(item.content, `${at}.content`),
    ...partRefusals(item.output, `${at}.output`),
  ];
}

/** Content and output are text or a list of parts. */
const partRefusals = (parts: unknown, at: string): Violation[] =>
  listOf(parts).flatMap((part, index) => {
    if (!isJsonObject(part)) return [];
    const path = `${at}[${index}]`;
    const message = "is not supported: send the content of the file instead";
    return [
      ...["file_id", "file_url"]
        .filter((name) => (part[name] ?? null) !== null)
        .map((name) => refuse(`${path}.${name}`, message)),
      ...cacheRefusals(part.prompt_cache_breakpoint, `${path}.prompt_cache_breakpoint`),
    ];
  });
