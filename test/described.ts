import type { Answer } from "./visitor.ts";

type Response = {
  headers?: Record<string, object>;
  content?: Record<string, { schema: { allOf?: { properties?: { code: { enum: string[] } } }[] } }>;
};
type Document = {
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, Response> } | undefined>>;
  components: { headers: Record<string, object> };
};

/** Failures that any request may meet, whatever its route: they are described as `default`. */
const ANYWHERE = [408, 431];
const documents = new Map<string, Promise<Document>>();

/** Holds an answer to what GET /openapi.json says of its route: status, headers, and the code of a refusal. @throws Error */
export async function holdToDocument(url: string, method: string, path: string, answer: Answer): Promise<void> {
  const { paths, components } = await documentOf(url);
  const { status, body } = answer;
  const operation = paths[routeOf(paths, path)]?.[method.toLowerCase()];
  if (!operation || status >= 500 || ANYWHERE.includes(status)) return;
  const response = operation.responses[status];
  const codes = response?.content?.["application/json"]?.schema.allOf?.at(-1)?.properties?.code.enum;
  if (!response || (status >= 400 && !codes?.includes(body.code))) {
    throw new Error(`${method} ${path} answered ${status} ${body.code}, of which /openapi.json says nothing`);
  }
  const untold = Object.keys(components.headers).filter(
    (name) => answer.headers.has(name) && !response.headers?.[name],
  );
  if (untold.length > 0)
    throw new Error(`${method} ${path} answered ${status} with ${untold}, untold by /openapi.json`);
}

function documentOf(url: string): Promise<Document> {
  const known = documents.get(url);
  if (known) return known;
  const read = fetch(`${url}/openapi.json`).then((response) => response.json() as Promise<Document>);
  documents.set(url, read);
  read.catch(() => documents.delete(url)); // a gateway that is being killed
  return read;
}

/** The template that a path follows, one without a variable before others. */
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
