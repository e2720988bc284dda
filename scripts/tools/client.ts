/**
 * Generates `client/src/api.ts`, the types and routes of the client, from the OpenAPI document. Run
 * by `npm run generate`.
 */
import { writeFileSync } from "node:fs";
import { openApiDocument } from "./openapi/document.ts";

type Schema = {
  $ref?: string;
  allOf?: Schema[];
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: string[];
};
type Content = { content: Record<string, { schema: Schema }> };
type Operation = {
  operationId: string;
  description: string;
  tags: [string];
  parameters?: {
    in: string;
    name: string;
    description: string;
    required: boolean;
    schema: Schema;
  }[];
  requestBody?: Content & { required?: boolean };
  responses: Record<string, Content>;
  security?: object[];
  "x-forbid-impersonation"?: true;
};
type Route = Operation & { method: string; path: string };
type Document = {
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

const HEAD = `// Generated from the OpenAPI document by \`npm run generate\`. Do not edit.

/** Options of every call. */
export type CallOptions = { signal?: AbortSignal | undefined };
/**
 * The request of a route. \`accepts\` is a status other than 2xx whose body is a result; \`isText\`
 * means that the result is text.
 */
export type Sent = { query?: object | undefined; body?: object | undefined; accepts?: number; isText?: boolean };
/** Calls a route. */
export type Call = <T>(method: string, path: string, sent: Sent, options: CallOptions | undefined) => Promise<T>;
/** Calls a route whose response is an event stream. */
export type Stream = (path: string, body: object, options: CallOptions | undefined) => AsyncGenerator<string, void>;
`;

/** The text of `client/src/api.ts`. */
export function clientSource(): string {
  const { paths, tags, components } = openApiDocument() as unknown as Document;
  const own = Object.entries(paths).filter(([path]) => !path.startsWith("/v1/")); // the vendors have packages for their formats
  const routes = own.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  );
  const { Error: errorSchema = {}, OpenAIError: _foreign, ...named } = components.schemas;
  const types = { ...named, ErrorBody: errorSchema, ErrorCode: errorSchema.properties?.code ?? {} };
  const groups = tags.map(({ name, description }) => {
    const own = routes.filter((route) => route.tags[0] === name).map(routeSource);
    return `${comment(description, "  ")}  ${name.toLowerCase()}: {\n${own.join("")}  },\n`;
  });
  const cookieSetters = routes.filter(setsCookie).map(({ path }) => path);
  const forbidden = routes.filter((route) => route["x-forbid-impersonation"]);
  return [
    HEAD,
    `/** Routes without a token that set a cookie. */\nexport const COOKIE_SETTERS: readonly string[] = [${cookieSetters.map((path) => `"${path}"`).join(", ")}];\n`,
    `/** Methods that are refused with \`IMPERSONATING\` while an administrator acts as a user. */\nexport const FORBIDDEN_IMPERSONATING = [\n${forbidden.map(({ operationId }) => `  "${operationId}",\n`).join("")}] as const;\n`,
    ...Object.entries(types).map(([name, schema]) => declaration(name, schema)),
    ...routes.flatMap(typesOf),
    `/** Every route of the API by its subject. */\nexport type Api = ReturnType<typeof createApi>;\n`,
    `/** Creates the routes. */\nexport const createApi = (call: Call, stream: Stream) => ({\n${groups.join("")}});\n`,
  ].join("\n");
}

/** Whether a route that needs no token sets a cookie. */
const setsCookie = (route: Route) =>
  route.security?.length === 0 &&
  "Set-Cookie" in ((successOf(route) as { headers?: object } | undefined)?.headers ?? {});

const comment = (text: string | undefined, indent = "") =>
  text ? `${indent}/** ${text} */\n` : "";
const declaration = (name: string, schema: Schema) =>
  `${comment(schema.description)}export type ${name} = ${typeOf(schema)};\n`;

/** TypeScript type of a schema. */
function typeOf(
  { $ref, type, items, properties, required = [], enum: values }: Schema,
  indent = "",
): string {
  if ($ref) return $ref.replace("#/components/schemas/", "");
  if (values) return values.map((value) => `"${value}"`).join(" | ");
  if (type === "array")
    return items?.enum ? `(${typeOf(items)})[]` : `${typeOf(items ?? {}, indent)}[]`;
  if (Array.isArray(type)) return type.join(" | ");
  if (type === "integer") return "number";
  if (type !== "object") return type ?? "unknown";
  if (!properties) return "Record<string, unknown>";
  const fields = Object.entries(properties).map(([name, schema]) => {
    const value = typeOf(schema, `${indent}  `);
    const isRequired = required.includes(name);
    return `${comment(schema.description, `${indent}  `)}${indent}  ${name}${isRequired ? "" : "?"}: ${value}${isRequired ? "" : " | undefined"};\n`;
  });
  return `{\n${fields.join("")}${indent}}`;
}

const nameOf = ({ operationId }: Operation) =>
  `${operationId[0]?.toUpperCase()}${operationId.slice(1)}`;
const contentOf = (content: Content | undefined) => content?.content["application/json"]?.schema;
/** The schema of a response that is text instead of JSON. */
const textOf = ({ content = {} }: Partial<Content> = {}) =>
  Object.entries(content).find(
    ([type]) => type.startsWith("text/") && type !== "text/event-stream",
  )?.[1].schema;
const successOf = ({ responses }: Operation) => responses[200] ?? responses[201];
const paramsOf = ({ parameters = [] }: Operation, place: string) =>
  parameters.filter((each) => each.in === place);
const bodyOf = ({ requestBody }: Operation) => {
  const schema = contentOf(requestBody);
  return Object.keys(schema?.properties ?? {}).length > 0 ? schema : undefined;
};

/** Request and response types of a route. */
function typesOf(route: Route): string[] {
  const query = paramsOf(route, "query");
  const properties = Object.fromEntries(
    query.map(({ name, description, schema }) => [name, { ...schema, description }]),
  );
  const request = bodyOf(route) ?? (query.length > 0 ? { type: "object", properties } : undefined);
  const response = contentOf(successOf(route)) ?? textOf(successOf(route));
  return [
    ...(request ? [declaration(`${nameOf(route)}Request`, request)] : []),
    ...(response ? [declaration(`${nameOf(route)}Response`, response)] : []),
  ];
}

/** What the client must know about a response. */
function optionsOf(route: Route): string[] {
  const unhealthy = route.responses[503];
  const isResult = unhealthy !== undefined && !contentOf(unhealthy)?.allOf; // health of an unhealthy service
  const isText = textOf(successOf(route)) !== undefined;
  return [...(isResult ? ["accepts: 503"] : []), ...(isText ? ["isText: true"] : [])];
}

/** Function of a route. Its parameters are those of the path, the body or query, and options. */
function routeSource(route: Route): string {
  const { method, path, description, operationId, requestBody } = route;
  const isText = textOf(successOf(route)) !== undefined;
  const isStream = !contentOf(successOf(route)) && !isText;
  const [body, hasQuery] = [bodyOf(route), paramsOf(route, "query").length > 0];
  const kind = body ? "body" : "query";
  const parameters = [
    ...paramsOf(route, "path").map(({ name }) => `${name}: string`),
    ...(body || hasQuery
      ? [`${kind}${requestBody?.required ? "" : "?"}: ${nameOf(route)}Request`]
      : []),
    "options?: CallOptions",
  ];
  const sent = [...(body || hasQuery ? [kind] : []), ...optionsOf(route)];
  const address = path.includes("{")
    ? `\`${path.replace(/\{(\w+)\}/g, "$${encodeURIComponent($1)}")}\``
    : `"${path}"`;
  const called = isStream
    ? `stream(${address}, body, options)`
    : `call<${nameOf(route)}Response>("${method}", ${address}, {${sent.length > 0 ? ` ${sent.join(", ")} ` : ""}}, options)`;
  const name = isStream ? "stream" : operationId;
  return `${comment(description, "    ")}    ${name}: (${parameters.join(", ")}) =>\n      ${called},\n`;
}

if (import.meta.main) writeFileSync("client/src/api.ts", clientSource());
