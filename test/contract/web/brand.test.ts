import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readLogo } from "../../../services/platform/process/logo-file.ts";
import { startSuiteApp } from "../../support/app.ts";
import { start } from "../../support/http/gateway.ts";
import { forTest, isMissing } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';

function fileOf(name: string, content: string | Buffer): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, content);
  return path;
}

const BRAND = {
  APP_NAME: "Acme & Sons",
  APP_ACCENT: "#e11d48",
  TERMS_URL: "https://acme.example/terms",
  PRIVACY_URL: "https://acme.example/privacy",
  SUPPORT_URL: "mailto:help@acme.example",
};

describe("Brand of an installation", async () => {
  const env = { ...BRAND, APP_LOGO: fileOf("logo.svg", SVG) };
  const app = await startSuiteApp({ mode: "embedded", env });
  const { get } = app.httpClient();

  test("GET /app-config: is public, cacheable and complete", async () => {
    const { status, headers, body } = await get("/app-config");
    expect([status, headers.get("cache-control")]).toEqual([200, "public, max-age=300"]);
    expect(body).toEqual({
      name: "Acme & Sons",
      logo: expect.stringMatching(/^app-logo\?v=[\da-f]{12}$/),
      accent: { light: expect.stringMatching(/^#/), dark: expect.stringMatching(/^#/) },
      links: {
        terms: BRAND.TERMS_URL,
        privacy: BRAND.PRIVACY_URL,
        support: BRAND.SUPPORT_URL,
      },
      signIn: ["password", "passkey"],
      registration: true,
      languages: ["en", "de"],
    });
  });

  test("GET /app-logo: is served with its type, and cannot run scripts when opened", async () => {
    const { body } = await get("/app-config");
    const { status, headers, text } = await get(`/${body.logo}`);
    expect([status, headers.get("content-type"), text]).toEqual([200, "image/svg+xml", SVG]);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("content-security-policy")).toContain("sandbox");
  });

  test("no page, document or e-mail contains the name of the product", async () => {
    const user = await app.addUser();
    const mail = await app.mail.emailTo(user.email);
    const shown = [mail.subject, mail.text, mail.html, mail.from?.name];
    for (const path of ["/", "/docs"]) shown.push((await get(path)).text);
    shown.push((await get("/openapi.json")).body.info.title);
    expect(shown.join("\n").toLowerCase()).not.toMatch(/gatehouse(?!\.test)/);
    expect(shown.join("\n")).toContain("Acme &#38; Sons");
    expect([mail.from?.name, mail.html]).toEqual([
      "Acme & Sons",
      expect.stringContaining(BRAND.TERMS_URL),
    ]);
  });

  test.skipIf(isMissing("zbarimg"))(
    "POST /auth/setup-totp: the issuer is the name of the installation",
    async () => {
      const { post } = await app.signIn();
      const { body } = await post("/auth/setup-totp", {});
      const file = fileOf("qr.png", Buffer.from(body.qrCode.split(",")[1], "base64"));
      const read = execFileSync("zbarimg", ["-q", "--raw", file], {
        stdio: ["ignore", "pipe", "ignore"],
      });
      const uri = new URL(read.toString().trim());
      expect(uri.searchParams.get("issuer")).toBe(BRAND.APP_NAME);
    },
  );
});

test("The pages of mailed links have name, colour and links of the brand, without the web app too", async () => {
  const server = await forTest(start(() => {}, { env: { ...BRAND, WEB: "off" } }));
  const { light } = (await server.send("GET", "/app-config")).body.accent;
  for (const path of ["/verify-email", "/reset-password"]) {
    const { text } = await server.send("GET", path);
    expect(text).toContain(`--accent-light: ${light};`);
    expect(text).toContain("Acme &#38; Sons</title>");
    expect(text).toContain('<a href="https://acme.example/terms">Terms</a>');
    expect(text).not.toMatch(/gatehouse|\{name\}|\{style\}|\{links\}/i);
  }
});

test.each([
  { what: "a text", content: "logo", problem: "must be an SVG or PNG file" },
  { what: "more than 256 KiB", content: Buffer.alloc(262_145), problem: "at most 256 KiB" },
])("APP_LOGO: $what is rejected", ({ content, problem }) => {
  expect(() => readLogo(fileOf("logo", content))).toThrow(problem);
});

test("APP_LOGO: a missing file is reported without its path", () => {
  expect(() => readLogo("/nowhere/logo.svg")).toThrow(/^APP_LOGO names no file .*ENOENT\)$/);
});
