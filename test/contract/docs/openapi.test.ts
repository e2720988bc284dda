import { expect, test } from "vitest";
import { startSuiteGateway } from "../../support/http/gateway.ts";

const server = await startSuiteGateway(() => {}, {
  env: { PUBLIC_URL: "https://api.example.com/below" },
});

type Operation = { operationId: string; description: string; tags: string[]; responses: object };
const { body: document } = await server.send("GET", "/openapi.json");
const { paths, components, tags } = document;
const operations = Object.values<Record<string, Operation>>(paths).flatMap((methods) =>
  Object.values(methods),
);
const schemaOf = (path: string, status: number, method = "post") =>
  paths[path][method].responses[status]?.content?.["application/json"].schema;

test("GET /openapi.json: contains the public URL and the routes", () => {
  expect(document).toMatchObject({
    openapi: "3.1.0",
    servers: [{ url: "https://api.example.com/below" }],
  });
  const described = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((m) => `${m.toUpperCase()} ${path}`),
  );
  expect(described).toEqual(
    expect.arrayContaining(["POST /auth/login", "PUT /admin/users/{id}", "GET /health/ready"]),
  );
});

test("GET /openapi.json: spells fields as in JSON, and other words as on the wire", () => {
  const own = Object.entries(paths).filter(([path]) => !path.startsWith("/v1/"));
  const text = JSON.stringify([own, components]);
  const words = [...new Set(text.match(/`[a-z]+_[a-z_]+`/g))];
  expect(words).toEqual(["`access_denied`", "`insufficient_quota`"]); // errors of OAuth and of OpenAI's API
  expect(text).not.toContain("accessDenied");
  expect(text).toContain("`tempToken`");
});

test("GET /openapi.json: lists required properties by their JSON names", () => {
  expect(components.schemas.User.required).toEqual(
    expect.arrayContaining(["createdAt", "updatedAt"]),
  );
  expect(schemaOf("/auth/login", 200).required).toEqual(["requiresMfa"]);
  expect(schemaOf("/ai/chat", 200).required).toEqual([
    "content",
    "model",
    "provider",
    "finishReason",
  ]);
  for (const path of ["/ai/chat", "/ai/stream"])
    expect(paths[path].post.responses[200]).toMatchObject({ headers: { "X-AI-Ignored": {} } });
  expect(paths["/auth/register"].post.requestBody).toMatchObject({ required: true });
  expect(paths["/user/profile"].put.requestBody).not.toHaveProperty("required");
  const own = Object.entries(paths).filter(([path]) => !path.startsWith("/v1/"));
  expect(JSON.stringify([own, components])).not.toMatch(/[Ss]pec section/);
});

test("GET /openapi.json: lists routes in the format of OpenAI's API with open bodies, and their errors", () => {
  const { post } = paths["/v1/chat/completions"];
  const { schema } = post.requestBody.content["application/json"];
  expect(schema).toMatchObject({ type: "object", additionalProperties: true });
  expect(Object.keys(post.responses[200].content)).toEqual([
    "application/json",
    "text/event-stream",
  ]);
  for (const name of ["X-AI-Ignored", "X-AI-Provider", "X-AI-Model"])
    expect(post.responses[200].headers).toHaveProperty(name);
  const failed = Object.keys(post.responses).filter((status) => status !== "200");
  expect(failed).toEqual(expect.arrayContaining(["400", "401", "404", "429", "503", "504"]));
  for (const status of failed)
    expect(post.responses[status].content["application/json"].schema).toEqual({
      $ref: "#/components/schemas/OpenAIError",
    });
});

type Listed = { path: string; method?: string; status: number; codes: string[] | undefined };
const LISTED: Listed[] = [
  { path: "/auth/register", status: 409, codes: ["EMAIL_TAKEN"] },
  { path: "/auth/login", status: 401, codes: ["INVALID_CREDENTIALS"] },
  { path: "/auth/login", status: 423, codes: ["ACCOUNT_LOCKED"] },
  { path: "/auth/refresh", status: 403, codes: ["CROSS_SITE"] },
  {
    path: "/admin/users",
    method: "get",
    status: 403,
    codes: ["FORBIDDEN", "MFA_REQUIRED", "KEY_NOT_ALLOWED", "IMPERSONATING"],
  },
  { path: "/ai/chat", status: 422, codes: ["PROVIDER_NOT_CONFIGURED"] },
  { path: "/ai/chat", status: 500, codes: ["PROVIDER_ERROR"] },
  { path: "/ai/stream", status: 422, codes: undefined }, // an error event of the stream
  { path: "/ai/stream", status: 413, codes: ["PAYLOAD_TOO_LARGE"] },
];

test.for(LISTED)(
  "GET /openapi.json: lists the failures of $path with status $status: $codes",
  ({ path, status, codes, method }) => {
    // in allOf, since generators of clients ignore properties beside a $ref
    expect(schemaOf(path, status, method)?.allOf[1].properties.code.enum).toEqual(codes);
  },
);

test("GET /openapi.json: explains every failure code", () => {
  const { Error: failure, Violation: violation } = components.schemas;
  expect(failure.required).toEqual(["statusCode", "message", "error", "code"]);
  const { code, violations } = failure.properties;
  expect(code.enum).toEqual(
    expect.arrayContaining(["INTERNAL", "NOT_FOUND", "UNAVAILABLE", "EMAIL_TAKEN"]),
  );
  expect(code.description).toContain(
    "`NOT_FOUND`: The route or the requested object does not exist.",
  );
  expect(violations.items).toEqual({ $ref: "#/components/schemas/Violation" });
  expect(violation.required).toEqual(["field", "message"]);
});

test("GET /openapi.json: describes the possible values of responses", () => {
  for (const name of ["User", "AdminUser"])
    expect(components.schemas[name].properties.role.enum, name).toEqual(["user", "admin"]);
  for (const name of ["User", "AdminUser", "Session"])
    expect(components.schemas[name].properties.id.format, name).toBe("uuid");
  expect(paths["/user/export"].get.responses[200].description).toContain("`nextPage`");
  expect(schemaOf("/user/export", 200, "get")).toEqual({
    type: "object",
    additionalProperties: true,
  });
});

test("GET /openapi.json: groups operations by subject, and lists no failure that cannot happen", () => {
  expect(tags).toContainEqual({
    name: "User",
    description: "Operations of signed-in users on their own accounts.",
  });
  expect(operations.filter(({ description }) => !description)).toEqual([]);
  const ids = operations.map(({ operationId }) => operationId);
  expect(ids.filter((id) => !/^[a-z][A-Za-z]+$/.test(id))).toEqual([]);
  const names = tags.map(({ name }: { name: string }) => name);
  expect(new Set(operations.flatMap((each) => each.tags))).toEqual(new Set(names));
  expect(Object.keys(paths["/health/live"].get.responses)).toEqual(["200", "400", "default"]);
  expect(JSON.stringify(paths["/auth/refresh"].post.responses[400])).not.toContain(
    "VALIDATION_FAILED",
  );
});

test("GET /openapi.json: describes access, limits with their headers, and field rules", () => {
  const bodyOf = (path: string) => paths[path].post.requestBody.content["application/json"].schema;
  expect(paths["/auth/login"].post).toMatchObject({
    security: [],
    responses: { 200: {}, 400: {}, 429: {} },
  });
  expect(paths["/auth/login"].post.description).toContain(
    "5 requests in 900 seconds per address and account.",
  );
  const routes = ["/auth/register", "/auth/forgot-password", "/auth/email-code"];
  for (const path of [...routes, "/auth/resend-verification", "/user/change-email"])
    expect(paths[path].post.description).toContain(
      "60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`.",
    );
  expect(paths["/auth/login"].post.responses.default.headers).toHaveProperty("RateLimit-Reset");
  expect(paths["/health"].get.responses.default.headers ?? {}).not.toHaveProperty(
    "RateLimit-Reset",
  );
  const email = { format: "email" };
  expect(bodyOf("/auth/login")).toMatchObject({
    required: ["email", "password"],
    properties: { email },
  });
  expect(paths["/auth/register"].post.responses).toHaveProperty("201");
  expect(paths["/user/profile"].get).toMatchObject({
    security: [{ accessToken: [] }],
    responses: { 401: {} },
  });
  const setsCookie = { headers: { "Set-Cookie": {} } };
  const refresh = {
    security: [{ refreshCookie: [] }],
    responses: { 200: setsCookie, 401: setsCookie },
  };
  expect(paths["/auth/refresh"].post).toMatchObject(refresh);
  const cookie = {
    name: "refreshToken",
    in: "cookie",
    required: false,
    schema: { type: "string" },
  };
  expect(paths["/auth/logout"].post).toMatchObject({
    security: [{ accessToken: [] }],
    parameters: [cookie],
  });
  const temperature = { type: "number", minimum: 0, maximum: 2 };
  const messages = { type: "array", minItems: 1, maxItems: 512 };
  expect(bodyOf("/ai/chat")).toMatchObject({ properties: { temperature, messages } });
});
