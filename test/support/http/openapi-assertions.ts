// Comparison of responses with /openapi.json.

import { z } from "zod";

type Response = { headers?: Record<string, object>; content?: Record<string, { schema: object }> };
type Document = {
  paths: Record<string, Record<string, { responses: Record<string, Response> } | undefined>>;
  components: { headers: Record<string, object>; schemas: Record<string, object> };
};

/** Statuses that any route may answer. The document describes them as `default`. */
const ANYWHERE = [408, 431];
const documents = new Map<string, Promise<Document>>();
/** Documents by their text from the paths on: what precedes them differs between deployments. */
const parsed = new Map<string, Document>();
const validators = new WeakMap<object, z.ZodType>();

/**
 * Compares status, headers and body of a response with GET /openapi.json.
 * @throws Error if they differ
 */
export async function assertMatchesOpenApi(
  url: string,
  method: string,
  path: string,
  answer: { status: number; headers: Headers; body: { code?: string } },
): Promise<void> {
  const { paths, components } = await documentOf(url);
  const { status, body } = answer;
  const operation = paths[routeOf(paths, path)]?.[method.toLowerCase()];
  if (!operation || ANYWHERE.includes(status)) return;
  const what = `${method} ${path} answered ${status}`;
  const { default: other, [status]: named = status >= 500 ? other : undefined } =
    operation.responses;
  if (!named) throw new Error(`${what} ${body.code}, which /openapi.json does not list`);
  const undescribed = Object.keys(components.headers).filter(
    (name) => answer.headers.has(name) && !named.headers?.[name],
  );
  if (undescribed.length > 0)
    throw new Error(`${what} with ${undescribed}, which /openapi.json does not list`);
  const [type = ""] = answer.headers.get("content-type")?.split(";") ?? [];
  const isStream = type === "text/event-stream";
  if (isStream && !named.content?.[type]) throw new Error(`${what} with a stream`);
  const schema = isStream ? undefined : named.content?.["application/json"]?.schema;
  const { error } = schema ? validatorOf(schema, components.schemas).safeParse(body) : {};
  if (error) throw new Error(`${what}, but /openapi.json differs:\n${z.prettifyError(error)}`);
}

function validatorOf(schema: object, $defs: object): z.ZodType {
  const known = validators.get(schema);
  if (known) return known;
  const made = z.fromJSONSchema({ ...schema, $defs } as z.core.JSONSchema.JSONSchema);
  validators.set(schema, made);
  return made;
}

function documentOf(url: string): Promise<Document> {
  const known = documents.get(url);
  if (known) return known;
  const read = fetch(`${url}/openapi.json`).then(async (response) => {
    const text = await response.text();
    const routes = text.slice(text.indexOf('"paths":'));
    const document = parsed.get(routes) ?? strictly(`{${routes}`);
    parsed.set(routes, document);
    return document;
  });
  documents.set(url, read);
  read.catch(() => documents.delete(url)); // of a gateway that is killed
  return read;
}

/**
 * Reads a document so that properties that it does not describe, and times that are not in UTC, are
 * errors.
 */
function strictly(text: string): Document {
  return JSON.parse(text.replaceAll("#/components/schemas/", "#/$defs/"), (_name, value) => {
    if (value?.format === "date-time") return { ...value, pattern: "Z$" };
    return value?.type === "object" && value.properties
      ? { additionalProperties: false, ...value }
      : value;
  });
}

/** The template of a path. A template without variables comes first. */
function routeOf(paths: Document["paths"], path: string): string {
  const given = path.replace(/[?#].*/s, "");
  const fits = (template: string) =>
    new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(given);
  return paths[given] ? given : (Object.keys(paths).find(fits) ?? "");
}
