// The values that /openapi.json lists have the form of the wire: each is accepted or produced in
// it, and in no other.

import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { createErrorMapper, onComplete } from "../../../services/interceptors/observe.ts";
import { ServiceError } from "../../../services/platform/rpc/errors.ts";
import { services } from "../../../services/platform/rpc/policy.ts";
import { startSuiteApp } from "../../support/app.ts";
import { type Routes, startSuiteGateway } from "../../support/http/gateway.ts";
import { silent } from "../../support/log.ts";

type Schema = {
  $ref?: string;
  enum?: string[];
  items?: Schema;
  properties?: Record<string, Schema>;
  allOf?: Schema[];
};
type Content = Record<string, { schema: Schema }>;
type Operation = {
  parameters?: { name: string; in: string; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};

const app = await startSuiteApp({ env: { RATE_LIMITS: "off", EMAIL_SIGN_IN: "code" } });
const admin = await app.signInAdmin();
const { paths, components } = (await app.httpClient().get("/openapi.json")).body as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};
const operations = Object.entries(paths)
  .filter(([path]) => !path.startsWith("/v1/")) // the formats of foreign APIs
  .flatMap(([path, verbs]) =>
    Object.entries(verbs).map(([verb, operation]) => ({
      verb: verb.toUpperCase(),
      path,
      operation,
    })),
  );

/** A place in a request that takes certain values. */
type Place = { field: string; values: string[]; put: (value: string) => unknown };

/** The places inside a schema, with the fields in violations and a way to put a value there. */
function placesOf(schema: Schema, field = ""): Place[] {
  const name = schema.$ref?.split("/").at(-1);
  if (name) return placesOf(components.schemas[name] as Schema, field);
  if (schema.enum) return [{ field, values: schema.enum, put: (value) => value }];
  if (schema.items)
    return placesOf(schema.items, `${field}[0]`).map((each) => ({
      ...each,
      put: (value) => [each.put(value)],
    }));
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) =>
    placesOf(property, field ? `${field}.${key}` : key).map((each) => ({
      ...each,
      put: (value) => ({ [key]: each.put(value) }),
    })),
  );
}

/** Other spellings of a value, which nothing takes. */
const misspelt = (value: string) =>
  [
    value.toUpperCase(),
    value.replace(/[-_](.)/g, (_, letter: string) => letter.toUpperCase()),
    value.replace(/-/g, "_"),
    value.replace(/_/g, "-"),
  ].filter((other) => other !== value);

const accepting = operations.flatMap(({ verb, path, operation }) => {
  const target = path.replace(/\{\w+\}/g, randomUUID());
  const inQuery = (operation.parameters ?? [])
    .filter(({ in: place, schema }) => place === "query" && schema.enum)
    .map(({ name: field, schema }) => ({
      ...{ field, values: schema.enum ?? [] },
      send: (value: string) =>
        admin.browser.send(verb, `${target}?${field}=${value}`, undefined, admin.headers),
    }));
  const { schema = {} } = operation.requestBody?.content["application/json"] ?? {};
  const inBody = placesOf(schema).map(({ put, ...place }) => ({
    ...place,
    send: (value: string) => admin.browser.send(verb, target, put(value), admin.headers),
  }));
  return [...inQuery, ...inBody].map((each) => ({ verb, path, ...each }));
});

test("GET /openapi.json: lists the values of requests", () => {
  const listed = accepting.map(({ verb, path, field }) => `${verb} ${path} ${field}`);
  for (const place of [
    "POST /auth/start-external purpose",
    "POST /user/passkeys/options purpose",
    "GET /admin/webhook-deliveries status",
    "PUT /admin/users/{id} role",
    "POST /ai/chat messages[0].role",
  ])
    expect(listed).toContain(place);
});

test.for(accepting)(
  "$verb $path: accepts each listed value of $field, and no other spelling",
  async ({ field, values, send }) => {
    const isBlamed = async (value: string) => {
      const { status, body } = await send(value);
      expect(status, value).not.toBe(404);
      const violations: { field: string }[] = body.violations ?? [];
      return violations.some((each) => each.field === field);
    };
    for (const value of values) {
      expect([value, await isBlamed(value)]).toEqual([value, false]);
      for (const other of misspelt(value))
        if (!values.includes(other)) expect([other, await isBlamed(other)]).toEqual([other, true]);
    }
  },
);

describe("Failures", async () => {
  let reason: Reason = Reason.UNSPECIFIED;
  const fail = (): never => {
    throw new ServiceError(reason, "It failed.");
  };
  const routes: Routes = (router) => {
    for (const service of services)
      router.service(
        service,
        Object.fromEntries(
          service.methods.map(({ localName, methodKind }) => [
            localName,
            methodKind === "unary"
              ? fail
              : async function* (): AsyncGenerator<object> {
                  yield fail();
                },
          ]),
        ),
      );
  };
  const mapError = createErrorMapper(silent, () => {});
  const gateway = await startSuiteGateway(routes, {
    interceptors: [
      (next) => (req) => onComplete(next, req, (error) => error && mapError(error, req)),
    ],
  });
  const own = operations.filter(({ path }) => !/^\/(health|app-config)/.test(path));

  test.for(own)(
    "$verb $path: returns each listed code with its status",
    async ({ verb, path, operation }) => {
      const target = path.replace(/\{\w+\}/g, randomUUID());
      for (const [status, { content }] of Object.entries(operation.responses)) {
        const { allOf } = content?.["application/json"]?.schema ?? {};
        for (const code of allOf?.[1]?.properties?.code?.enum ?? []) {
          reason = Reason[code as keyof typeof Reason];
          expect(reason, code).toBeGreaterThan(0);
          const answer = await gateway.send(verb, target, verb === "GET" ? undefined : {});
          expect([answer.status, answer.body.code], code).toEqual([Number(status), code]);
        }
      }
    },
  );

  test("Error.code lists every reason of the contract, and nothing else", () => {
    const names = Object.keys(Reason)
      .filter((name) => /^[A-Z]/.test(name))
      .map((name) => (name === "UNSPECIFIED" ? "INTERNAL" : name));
    const listed = components.schemas.Error?.properties?.code?.enum ?? [];
    expect(listed.filter((code) => !names.includes(code))).toEqual([]);
    expect(names.filter((name) => !listed.includes(name))).toEqual([]);
  });
});

describe("Stored values", () => {
  const valuesOf = (schema: string, property: string) =>
    components.schemas[schema]?.properties?.[property]?.enum ?? [];
  const all = async (path: string) => {
    const { body } = await admin.get(path);
    return (body.items ?? body) as Record<string, string>[];
  };
  const insertWebhook = (reason: string | null) => {
    const id = randomUUID();
    return app
      .sql(
        `insert into webhooks (id, url, events, secret, position, created_at, disabled_at, disabled_reason)
         values (?, 'https://hooks.example.com', '{user.*}', 'sealed', 0, now(), now(), ?)`,
        [id, reason],
      )
      .then(() => id);
  };

  test("GET /admin/email-logs: shows each listed status, and filters by it", async () => {
    for (const value of valuesOf("EmailLog", "status")) {
      await app.sql(
        `insert into emails (id, "to", template, facts, status, created_at) values (?, 'a@b.example', 'email-code', '{}', ?, now())`,
        [randomUUID(), value],
      );
      const items = await all(`/admin/email-logs?to=a@b.example&status=${value}`);
      expect(items.map(({ status }) => status)).toEqual([value]);
    }
  });

  test("GET /admin/webhooks, /admin/webhook-deliveries: show each listed reason and status", async () => {
    for (const value of valuesOf("Webhook", "disabledReason")) {
      const webhookId = await insertWebhook(value);
      const shown = (await all("/admin/webhooks")).find(({ id }) => id === webhookId);
      expect(shown?.disabledReason).toBe(value);
    }
    const webhookId = await insertWebhook("requested");
    for (const value of valuesOf("WebhookDelivery", "status")) {
      await app.sql(
        `insert into webhook_deliveries (id, webhook_id, event_id, event, status, queued_at, created_at)
         values (?, ?, ?, 'user.erased', ?, now(), now())`,
        [randomUUID(), webhookId, randomUUID(), value],
      );
      const items = await all(`/admin/webhook-deliveries?webhookId=${webhookId}&status=${value}`);
      expect(items.map(({ status }) => status)).toEqual([value]);
    }
    await app.sql("delete from webhooks");
  });

  test("GET /admin/users, /admin/audit-logs: show each listed role and outcome", async () => {
    const user = await app.addUser();
    await app.guess(user.email);
    for (const role of valuesOf("AdminUser", "role"))
      expect(new Set((await all(`/admin/users?role=${role}`)).map((each) => each.role))).toEqual(
        new Set([role]),
      );
    const events = await all("/admin/audit-logs?limit=100");
    expect(new Set(events.map(({ outcome }) => outcome))).toEqual(
      new Set(valuesOf("AuditEvent", "outcome")),
    );
  });
});
