import type { HttpResponse } from "./http-client.ts";

type Schema = {
  $ref?: string;
  allOf?: Schema[];
  type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
  items?: Schema;
  enum?: unknown[];
  format?: string;
};
type Response = { headers?: Record<string, object>; content?: Record<string, { schema: Schema }> };
type Document = {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, Response> } | undefined>>;
  components: { headers: Record<string, object>; schemas: Record<string, Schema> };
};

/** Statuses that any route may answer. The document describes them as `default`. */
const ANYWHERE = [408, 431];
const FORMATS: Record<string, RegExp> = {
  uuid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
};
const documents = new Map<string, Promise<Document>>();

/** Compares status, headers and body of a response with GET /openapi.json. @throws Error if they differ */
export async function assertMatchesOpenApi(
  url: string,
  method: string,
  path: string,
  answer: HttpResponse,
): Promise<void> {
  const { paths, components } = await documentOf(url);
  const { status, body } = answer;
  const operation = paths[routeOf(paths, path)]?.[method.toLowerCase()];
  if (!operation || ANYWHERE.includes(status)) return;
  const what = `${method} ${path} answered ${status}`;
  const { default: other, [status]: named = status >= 500 ? other : undefined } = operation.responses;
  if (!named) throw new Error(`${what} ${body.code}, which /openapi.json does not list`);
  const undescribed = Object.keys(components.headers).filter(
    (name) => answer.headers.has(name) && !named.headers?.[name],
  );
  if (undescribed.length > 0) throw new Error(`${what} with ${undescribed}, which /openapi.json does not list`);
  const schema = named.content?.["application/json"]?.schema;
  const wrong = schema ? differences(components.schemas, schema, body, "the body") : [];
  if (wrong.length > 0) throw new Error(`${what}, but /openapi.json differs: ${wrong.join(", ")}`);
}

/** The differences between a value and its schema. Properties without a schema are differences. */
function differences(named: Document["components"]["schemas"], schema: Schema, value: unknown, at: string): string[] {
  const { $ref, allOf } = schema;
  if ($ref) return differences(named, named[$ref.replace("#/components/schemas/", "")] ?? {}, value, at);
  if (allOf) {
    const parts = allOf.map((part) => (part.$ref ? named[part.$ref.replace("#/components/schemas/", "")] : part));
    const properties = Object.assign({}, ...parts.map((part) => part?.properties));
    return differences(
      named,
      { type: "object", properties, required: parts.flatMap((p) => p?.required ?? []) },
      value,
      at,
    );
  }
  if (schema.type === "array") {
    if (!Array.isArray(value)) return [`${at} is no list`];
    return value.flatMap((item, i) => differences(named, schema.items ?? {}, item, `${at}[${i}]`));
  }
  if (schema.type === "object") {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${at} is no object`];
    const { properties = {}, required = [], additionalProperties: isOpen } = schema;
    return [
      ...required.filter((name) => !Object.hasOwn(value, name)).map((name) => `${at}.${name} is missing`),
      ...Object.entries(value).flatMap(([name, item]) => {
        const described = properties[name];
        if (described) return differences(named, described, item, `${at}.${name}`);
        return isOpen ? [] : [`${at}.${name} is not described`];
      }),
    ];
  }
  const isOfType = schema.type === "integer" ? Number.isInteger(value) : typeof value === schema.type;
  const isOne = !schema.enum || schema.enum.includes(value);
  const isFormed = FORMATS[schema.format ?? ""]?.test(String(value)) ?? true;
  return isOfType && isOne && isFormed ? [] : [`${at} is no ${schema.format ?? schema.enum?.join("|") ?? schema.type}`];
}

function documentOf(url: string): Promise<Document> {
  const known = documents.get(url);
  if (known) return known;
  const read = fetch(`${url}/openapi.json`).then((response) => response.json() as Promise<Document>);
  documents.set(url, read);
  read.catch(() => documents.delete(url)); // of a gateway that is killed
  return read;
}

/** The template of a path. A template without variables comes first. */
function routeOf(paths: Document["paths"], path: string): string {
  const given = path.replace(/[?#].*/s, "").split("/");
  const fits = (template: string) => {
    const segments = template.split("/");
    return (
      segments.length === given.length && segments.every((s, i) => s === given[i] || (s.startsWith("{") && given[i]))
    );
  };
  return paths[given.join("/")] ? given.join("/") : (Object.keys(paths).find(fits) ?? "");
}
