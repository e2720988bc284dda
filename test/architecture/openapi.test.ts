import { expect, test } from "vitest";
import { openApiText } from "../../scripts/tools/openapi.ts";

type Field = {
  $ref?: string;
  description?: string;
  examples?: unknown[];
  properties?: Record<string, Field>;
  items?: Field;
};

test("OpenAPI: every field, parameter and header has a description and an example (scripts/tools/openapi/examples.ts)", () => {
  const { paths, components } = JSON.parse(openApiText());
  const faults = [
    ...undocumentedIn(paths, "paths"),
    ...undocumentedIn(components.schemas, "schemas"),
  ];
  expect(faults).toEqual([]);
  for (const [name, header] of Object.entries(components.headers)) {
    expect(header, name).toMatchObject({
      description: expect.any(String),
      schema: { examples: [expect.anything()] },
    });
  }
});

/** The paths of fields and parameters inside a value that lack a description or an example. */
function undocumentedIn(value: unknown, at: string): string[] {
  if (typeof value !== "object" || value === null) return [];
  const own = Object.entries(fieldsOf(value, at))
    .filter(([name, field]) => !isNarrowed(name, at) && !isDocumented(field))
    .map(([name]) => `${at}.${name}`);
  const children = Object.entries(value).filter(([name]) => name !== "example");
  return [...own, ...children.flatMap(([name, child]) => undocumentedIn(child, `${at}.${name}`))];
}

/** The properties of a schema, or the one field that a parameter is. */
function fieldsOf(value: object, at: string): Record<string, Field> {
  const { properties = {}, in: place, schema } = value as Field & { in?: string; schema?: Field };
  return place && schema ? { ...properties, [at]: { ...schema, ...value } } : properties;
}

/** The `code` of an error narrows that of `Error`, which is documented. */
const isNarrowed = (name: string, at: string) => at.includes(".allOf.") && name === "code";

const isDocumented = (field: Field) => Boolean(field.description) && hasExample(field);

function hasExample({ $ref, examples, properties, items }: Field): boolean {
  return [$ref, examples, properties].some(Boolean) || (items !== undefined && hasExample(items));
}
