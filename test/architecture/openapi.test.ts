import { expect, test } from "vitest";
import { openApiText } from "../../scripts/openapi.ts";

type Field = {
  $ref?: string;
  description?: string;
  examples?: unknown[];
  properties?: Record<string, Field>;
  items?: Field;
};

test("OpenAPI: every field, parameter and header has a description and an example (scripts/openapi/examples.ts)", () => {
  const hasExample = ({ $ref, examples, properties, items }: Field): boolean =>
    [$ref, examples, properties].some(Boolean) || (items !== undefined && hasExample(items));
  const faults: string[] = [];
  const look = (value: unknown, at: string): void => {
    if (typeof value !== "object" || value === null) return;
    const { properties = {}, in: place, schema } = value as Field & { in?: string; schema?: Field };
    const parameter = place && schema ? { [at]: { ...schema, ...value } as Field } : {};
    for (const [name, field] of Object.entries({ ...properties, ...parameter })) {
      const isCode = at.includes(".allOf.") && name === "code"; // narrows that of Error
      if (!isCode && (!field.description || !hasExample(field))) faults.push(`${at}.${name}`);
    }
    for (const [name, child] of Object.entries(value))
      if (name !== "example") look(child, `${at}.${name}`);
  };
  const { paths, components } = JSON.parse(openApiText());
  look(paths, "paths");
  look(components.schemas, "schemas");
  expect(faults).toEqual([]);
  for (const [name, header] of Object.entries(components.headers)) {
    expect(header, name).toMatchObject({
      description: expect.any(String),
      schema: { examples: [expect.anything()] },
    });
  }
});
