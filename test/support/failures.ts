/** A refused request, as `toMatchObject` takes it. */
export const refusal = (status: number, code: string) => ({ status, body: { code } });

/** A request that is refused because of these fields. */
export const invalid = (...fields: string[]) => ({
  status: 400,
  body: { code: "VALIDATION_FAILED", violations: fields.map((field) => ({ field })) },
});

/** The fields because of which a request was refused, each once, in order. */
export const fieldsIn = ({ body }: { body: { violations: { field: string }[] } }): string[] =>
  [...new Set(body.violations.map(({ field }) => field))].sort();
