import { expect, test } from "vitest";
import { startSuiteGateway } from "../../support/gateway.ts";

const server = await startSuiteGateway(() => {}, { env: { PUBLIC_URL: "https://api.example.com/below" } });

type HttpResponse = { content?: Record<string, { schema: object }>; headers?: object };
type Operation = {
  operationId: string;
  description: string;
  tags: string[];
  responses: Record<number | "default", HttpResponse>;
  security: object[];
  requestBody?: object;
};
type Document = {
  openapi: string;
  servers: object[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; headers: Record<string, object> };
};
const document = (await server.send("GET", "/openapi.json")).body as Document;
const { paths, components, tags } = document;

test("GET /openapi.json: describes every route, and no other", async () => {
  expect(document).toMatchObject({ openapi: "3.1.0", servers: [{ url: "https://api.example.com/below" }] });
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((m) => `${m.toUpperCase()} ${path}`),
  );
  expect(described).toContain("POST /auth/login");
  expect(described).toContain("PUT /admin/users/{id}");
  expect(described).toContain("GET /health/ready");
  for (const each of described) {
    const [method, path = ""] = each.split(" ");
    const answer = await server.send(method ?? "", path.replace(/\{\w+\}/, "1"));
    expect(answer.status, each).not.toBe(405);
    expect(answer.text, each).not.toContain("nothing at this address");
  }
});

test("GET /openapi.json: defines everything that it refers to", () => {
  const names = [...JSON.stringify(document).matchAll(/#\/components\/(?:schemas|headers)\/([\w-]+)/g)].map(
    ([, name]) => name,
  );
  const { schemas, headers } = components;
  expect(Object.keys({ ...schemas, ...headers })).toEqual(expect.arrayContaining(names));
});

test("GET /openapi.json: lists required properties by their JSON names", () => {
  const required = (schema: unknown) => (schema as { required: string[] }).required;
  expect(required(components.schemas.User)).toEqual(expect.arrayContaining(["createdAt", "updatedAt"]));
  const answer = (path: string) => paths[path]?.post?.responses[200]?.content?.["application/json"]?.schema;
  expect(required(answer("/auth/login"))).toEqual(["requiresMfa"]);
  expect(required(answer("/ai/chat"))).toEqual(["content", "model", "provider", "finishReason"]);
  for (const path of ["/ai/chat", "/ai/stream"])
    expect(paths[path]?.post?.responses[200]).toMatchObject({ headers: { "X-AI-Ignored": {} } });
  expect(paths["/auth/register"]?.post?.requestBody).toMatchObject({ required: true });
  expect(paths["/user/profile"]?.put?.requestBody).not.toHaveProperty("required");
  expect(JSON.stringify({ paths, components })).not.toMatch(/`[a-z]+_[a-z_]+`|[Ss]pec section/);
});

test("GET /openapi.json: lists the failures of each route by status and code", () => {
  const codes = (path: string, status: number, method = "post") => {
    const schema = paths[path]?.[method]?.responses[status]?.content?.["application/json"]?.schema;
    // in allOf, since generators of clients ignore properties beside a $ref
    return (schema as { allOf: { properties: { code: { enum: string[] } } }[] } | undefined)?.allOf[1]?.properties.code
      .enum;
  };
  expect(codes("/auth/register", 409)).toEqual(["EMAIL_TAKEN"]);
  expect(codes("/auth/login", 401)).toEqual(["INVALID_CREDENTIALS"]);
  expect(codes("/auth/login", 423)).toEqual(["ACCOUNT_LOCKED"]);
  expect(codes("/auth/refresh", 403)).toEqual(["CROSS_SITE"]);
  expect(codes("/admin/users", 403, "get")).toEqual(["FORBIDDEN", "MFA_REQUIRED", "IMPERSONATING"]);
  expect(codes("/ai/chat", 422)).toEqual(["PROVIDER_NOT_CONFIGURED"]);
  expect(codes("/ai/chat", 500)).toEqual(["PROVIDER_ERROR"]);
  expect(codes("/ai/stream", 422)).toBeUndefined(); // an error event of the stream
  expect(codes("/ai/stream", 413)).toEqual(["PAYLOAD_TOO_LARGE"]);
});

test("GET /openapi.json: explains every failure code", () => {
  expect(components.schemas.Error).toMatchObject({
    required: ["statusCode", "message", "error", "code"],
    properties: {
      code: {
        enum: expect.arrayContaining(["INTERNAL", "NOT_FOUND", "UNAVAILABLE", "EMAIL_TAKEN"]),
        description: expect.stringContaining("`NOT_FOUND`: The route or the object does not exist."),
      },
      violations: { items: { $ref: "#/components/schemas/Violation" } },
    },
  });
  expect(components.schemas.Violation).toMatchObject({ required: ["field", "message"] });
});

test("GET /openapi.json: describes the possible values of responses", () => {
  const is = (properties: object) => expect.objectContaining({ properties: expect.objectContaining(properties) });
  const role = expect.objectContaining({ enum: ["user", "admin"] });
  const id = expect.objectContaining({ format: "uuid" });
  expect(components.schemas).toMatchObject({
    User: is({ role, id }),
    AdminUser: is({ role, id }),
    Session: is({ id }),
  });
  const exported = paths["/user/export"]?.get?.responses[200];
  expect(exported).toMatchObject({ description: expect.stringContaining("`nextPage`") });
  expect(exported?.content?.["application/json"]?.schema).toEqual({ type: "object", additionalProperties: true });
});

test("GET /openapi.json: groups operations by subject under unique names, and lists no failure that cannot happen", () => {
  expect(tags).toContainEqual({ name: "User", description: "Operations of signed-in users on their own account." });
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  expect(operations.filter(({ description }) => !description)).toEqual([]);
  const ids = operations.map(({ operationId }) => operationId);
  expect(ids.filter((id) => !/^[a-z][A-Za-z]+$/.test(id))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
  expect(new Set(operations.flatMap((each) => each.tags))).toEqual(new Set(tags.map(({ name }) => name)));
  expect(Object.keys(paths["/health/live"]?.get?.responses ?? {})).toEqual(["200", "400", "default"]);
  expect(JSON.stringify(paths["/auth/refresh"]?.post?.responses[400])).not.toContain("VALIDATION_FAILED");
});

test("GET /openapi.json: lists the rate-limit headers on every response that carries them", () => {
  const ofOther = (path: string, method: string) => paths[path]?.[method]?.responses.default?.headers;
  expect(ofOther("/auth/login", "post")).toHaveProperty("RateLimit-Reset");
  expect(ofOther("/health", "get")).not.toHaveProperty("RateLimit-Reset");
});

test("GET /openapi.json: states access, limits and field rules", () => {
  expect(paths["/auth/login"]?.post).toMatchObject({
    security: [],
    description: expect.stringContaining("5 requests in 900 seconds"),
    requestBody: {
      content: {
        "application/json": { schema: { required: ["email", "password"], properties: { email: { format: "email" } } } },
      },
    },
    responses: { 200: {}, 400: {}, 429: {} },
  });
  expect(paths["/auth/register"]?.post?.responses).toHaveProperty("201");
  expect(paths["/user/profile"]?.get).toMatchObject({ security: [{ accessToken: [] }], responses: { 401: {} } });
  expect(paths["/auth/refresh"]?.post).toMatchObject({
    security: [{ refreshCookie: [] }],
    responses: { 200: { headers: { "Set-Cookie": {} } }, 401: { headers: { "Set-Cookie": {} } } },
  });
  expect(paths["/auth/logout"]?.post).toMatchObject({
    security: [{ accessToken: [] }],
    parameters: [{ name: "refreshToken", in: "cookie", required: false, schema: { type: "string" } }],
  });
  const properties = {
    temperature: { type: "number", minimum: 0, maximum: 2 },
    messages: { type: "array", minItems: 1, maxItems: 512 },
  };
  const content = { "application/json": { schema: { properties } } };
  expect(paths["/ai/chat"]?.post).toMatchObject({ requestBody: { content } });
});
