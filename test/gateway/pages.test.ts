import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { Started } from "./harness.ts";
import { start } from "./harness.ts";

const CHROMIUM = "/usr/bin/chromium";
const pages = ["/docs", "/verify-email", "/reset-password"];
let edge: Started;
const given: string[] = [];

beforeAll(async () => {
  edge = await start((router) =>
    router.service(AuthService, {
      verifyEmail: ({ token }) => {
        given.push(token);
        return { message: "Your address is verified." };
      },
      resetPassword: ({ token, password }) => {
        given.push(token, password);
        return { message: "Your password is set." };
      },
    }),
  );
});
afterAll(() => edge.close());
beforeEach(() => {
  given.length = 0;
});

describe("GET /openapi.json", () => {
  type Answer = { content?: Record<string, { schema: object }> };
  type Operation = { responses: Record<number, Answer>; security: object[]; requestBody?: object };
  type Document = {
    openapi: string;
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, object> };
  };
  const document = async () => (await edge.send("GET", "/openapi.json")).body as Document;

  test("describes every route, and nothing that is not there", async () => {
    const { openapi, paths } = await document();
    expect(openapi).toBe("3.1.0");
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((m) => `${m.toUpperCase()} ${path}`),
    );
    expect(described).toContain("POST /auth/login");
    expect(described).toContain("PUT /admin/users/{id}");
    expect(described).toContain("GET /health/ready");
    for (const each of described) {
      const [method, path = ""] = each.split(" ");
      const answer = await edge.send(method ?? "", path.replace(/\{\w+\}/, "1"));
      expect(answer.status, each).not.toBe(405);
      expect(answer.text, each).not.toContain("nothing at this address");
    }
  });

  test("refers to nothing that it does not define", async () => {
    const whole = await document();
    const names = [...JSON.stringify(whole).matchAll(/#\/components\/schemas\/(\w+)/g)].map(([, name]) => name);
    expect(Object.keys(whole.components.schemas)).toEqual(expect.arrayContaining(names));
  });

  test("tells what is always there, by the names that JSON has", async () => {
    const { paths, components } = await document();
    const required = (schema: unknown) => (schema as { required: string[] }).required;
    expect(required(components.schemas.User)).toEqual(expect.arrayContaining(["createdAt", "updatedAt"]));
    const answer = (path: string) => paths[path]?.post?.responses[200]?.content?.["application/json"]?.schema;
    expect(required(answer("/auth/login"))).toEqual(["requiresMfa"]);
    expect(required(answer("/ai/chat"))).toEqual(["content", "model", "provider"]);
    expect(paths["/auth/register"]?.post?.requestBody).toMatchObject({ required: true });
    expect(paths["/user/profile"]?.put?.requestBody).not.toHaveProperty("required");
    expect(JSON.stringify({ paths, components })).not.toMatch(/`[a-z]+_[a-z_]+`|[Ss]pec section/);
  });

  test("names what each route refuses, by status and code", async () => {
    const { paths } = await document();
    const codes = (path: string, status: number) => {
      const schema = paths[path]?.post?.responses[status]?.content?.["application/json"]?.schema;
      return (schema as { properties: { code: { enum: string[] } } } | undefined)?.properties.code.enum;
    };
    expect(codes("/auth/register", 409)).toEqual(["EMAIL_TAKEN"]);
    expect(codes("/auth/login", 401)).toEqual(["INVALID_CREDENTIALS"]);
    expect(codes("/auth/login", 423)).toEqual(["ACCOUNT_LOCKED"]);
    expect(codes("/auth/refresh", 403)).toEqual(["CROSS_SITE"]);
    expect(codes("/ai/chat", 422)).toEqual(["PROVIDER_NOT_CONFIGURED"]);
    expect(codes("/ai/chat", 500)).toEqual(["PROVIDER_ERROR"]);
    expect(codes("/ai/stream", 422)).toBeUndefined(); // comes as an event
    expect(codes("/ai/stream", 413)).toEqual(["PAYLOAD_TOO_LARGE"]);
  });

  test("states who may call, how often, and the rules of fields", async () => {
    const { paths } = await document();
    expect(paths["/auth/login"]?.post).toMatchObject({
      security: [],
      description: expect.stringContaining("5 requests in 900 seconds"),
      requestBody: {
        content: {
          "application/json": {
            schema: { required: ["email", "password"], properties: { email: { format: "email" } } },
          },
        },
      },
      responses: { 200: {}, 400: {}, 429: {} },
    });
    expect(paths["/auth/register"]?.post?.responses).toHaveProperty("201");
    expect(paths["/user/profile"]?.get).toMatchObject({ security: [{ accessToken: [] }], responses: { 401: {} } });
    expect(paths["/auth/refresh"]?.post).toMatchObject({ security: [{ refreshCookie: [] }] });
    expect(paths["/ai/chat"]?.post).toMatchObject({
      requestBody: {
        content: {
          "application/json": { schema: { properties: { temperature: { type: "number", minimum: 0, maximum: 2 } } } },
        },
      },
    });
  });
});

describe.each(pages)("GET %s", (path) => {
  test("loads nothing, is kept nowhere, leaks no address and can't be framed", async () => {
    const { status, headers, text } = await edge.send("GET", path);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    const script = /<script>(.*)<\/script>/s.exec(text)?.[1] ?? "";
    expect(policy).toContain(`'sha256-${createHash("sha256").update(script).digest("base64")}'`);
    expect(text).not.toMatch(/\b(src|href)="?(https?:)?\/\//);
    expect(text).not.toMatch(/\son\w+=/);
    expect(given).toEqual([]);
  });
});

describe.runIf(existsSync(CHROMIUM))("in a browser", { timeout: 30_000 }, () => {
  let browser: Awaited<ReturnType<typeof chromium.launch>>;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  }, 30_000);
  afterAll(() => browser?.close());
  const visit = async (path: string) => {
    const page = await browser.newPage();
    const errors: string[] = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await page.goto(edge.url + path);
    return { page, errors };
  };

  test("the verification link posts its token on a click, not before", async () => {
    const { page, errors } = await visit("/verify-email#token=abc.def");
    expect(given).toEqual([]);
    expect(page.url()).not.toContain("abc");
    await page.click("button");
    await page.getByText("Your address is verified.").waitFor();
    expect(given).toEqual(["abc.def"]);
    expect(errors).toEqual([]);
  });

  test("the reset link sets the password that is typed", async () => {
    const { page } = await visit("/reset-password#token=abc");
    await page.fill("input", "Secret-1!");
    await page.click("button");
    await page.getByText("Your password is set.").waitFor();
    expect(given).toEqual(["abc", "Secret-1!"]);
  });

  test.each(["/verify-email", "/reset-password"])("a second link to %s takes the place of the first", async (path) => {
    const { page, errors } = await visit(`${path}#token=`);
    await page.getByText("This link is not complete.").waitFor();
    await page.goto(`${edge.url}${path}#token=second`);
    await page.getByText("This link is not complete.").waitFor({ state: "detached" });
    if (path === "/reset-password") await page.fill("input", "Secret-1!");
    await page.click("button");
    await page.getByText(/^Your .* is /).waitFor();
    expect(given[0]).toBe("second");
    expect(page.url()).not.toContain("second");
    expect(errors).toEqual([]);
  });

  test("the documentation suggests what a request requires, and nothing else", async () => {
    const { page } = await visit("/docs");
    const suggested = async (route: string) =>
      JSON.parse(await page.locator("details", { hasText: route }).first().locator("textarea").inputValue());
    expect(await suggested("PUT/admin/users/{id} ")).toEqual({});
    expect(await suggested("POST/auth/verify-mfa ")).toEqual({ tempToken: "" });
    expect(await suggested("POST/ai/chat ")).toEqual({ provider: "", messages: [{ role: "user", content: "" }] });
  });

  test("the documentation lists every route and sends a request", async () => {
    const { page, errors } = await visit("/docs");
    await page.locator("details", { hasText: "/health/live" }).locator("summary").click();
    await page.locator("details[open] button").click();
    await page.getByText("200 OK").waitFor();
    expect(await page.locator("details").count()).toBeGreaterThan(40);
    expect(errors).toEqual([]);
  });
});
