import { writeFileSync } from "node:fs";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { startSlowSmtpServer } from "../../support/mail/slow-smtp-server.ts";
import { forSuite } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const LONG = "https://app.example.com/a/rather/long/path/to/the/front/end/of/this/installation";
const apps = await Promise.all(
  [
    { APP_NAME: "Acme & Sons", APP_URL: LONG },
    { APP_NAME: "Größe 🦜", APP_URL: LONG },
    { APP_NAME: "Acme", APP_URL: `https://app.example.com/${"long/".repeat(220)}end` },
  ].map(async (env) => {
    const server = await forSuite(startSlowSmtpServer());
    const app = await startSuiteApp({ mode: "embedded", env: { ...env, SMTP_URL: server.url } });
    return { app, server, ...env };
  }),
);
const [ascii, accents, endless] = apps as [Each, Each, Each];
type Each = (typeof apps)[number];

/** The verification mail of a new account. */
async function mail({ app, server }: Each) {
  const { email } = await app.addUser();
  const { raw } = await until("the mail", () => server.received.find(({ to }) => to === email));
  return { raw, ...(await PostalMime.parse(raw)) };
}

const tokenIn = (text = "") => /#token=([\w-]{43})$/m.exec(text)?.[1] ?? "";

test("An ASCII e-mail is sent unencoded, with its link on one line of text and of HTML", async () => {
  const { raw, text } = await mail(ascii);
  const link = `${LONG}/verify-email#token=${tokenIn(text)}`;
  expect(tokenIn(text)).not.toBe("");
  expect(raw.split("\r\n").filter((line) => line.includes(link))).toHaveLength(2);
  expect(raw.match(/^content-transfer-encoding: .*$/gim)).toEqual([
    "Content-Transfer-Encoding: 7bit",
    "Content-Transfer-Encoding: 7bit",
  ]);
  expect(Math.max(...raw.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(998);
});

test("An e-mail with other characters has its link on one line of HTML, and unbroken in the text", async () => {
  const { raw, text, html } = await mail(accents);
  const link = `${LONG}/verify-email#token=${tokenIn(text)}`;
  expect(tokenIn(text)).not.toBe("");
  expect(raw.split("\r\n").filter((line) => line.includes(link))).toHaveLength(1);
  expect(raw).toMatch(/^[\r\n\t\x20-\x7e]*$/);
  expect(text).toContain("Größe 🦜");
  expect(html).toContain("&#246;&#223;e &#129436;");
});

test("An e-mail whose link exceeds the maximum line length arrives complete", async () => {
  const { raw, text, html } = await mail(endless);
  const link = `${endless.APP_URL}/verify-email#token=${tokenIn(text)}`;
  expect(text).toContain(link);
  expect(html).toContain(link);
  expect(Math.max(...raw.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(998);
});

test.each([
  ["Auto-Submitted", "auto-generated"],
  ["X-Mailgun-Track-Clicks", "no"],
  ["X-PM-TrackLinks", "None"],
  ["X-SMTPAPI", '{"filters":{"clicktrack":{"settings":{"enable":0}}}}'],
  ["X-MSYS-API", '{"options":{"click_tracking":false}}'],
  ["X-Mailjet-TrackClick", "0"],
])("An e-mail has the header %s", async (key, value) => {
  const { headers } = await mail(ascii);
  expect(headers).toContainEqual(expect.objectContaining({ key: key.toLowerCase(), value }));
});

test("The link in an e-mail opts out of click tracking", async () => {
  const { html } = await mail(ascii);
  const link = /<a [^>]*>/.exec(html ?? "")?.[0];
  for (const mark of ['clicktracking="off"', 'data-msys-clicktrack="0"', "ses:no-track"])
    expect(link).toContain(mark);
});

test("An e-mail declares light and dark schemes, and sets no text colour without a background", async () => {
  const { html = "" } = await mail(ascii);
  for (const name of ["color-scheme", "supported-color-schemes"])
    expect(html).toContain(`<meta name="${name}" content="light dark">`);
  const styles = [...html.matchAll(/style="([^"]*)"/g)].map(([, style]) => style ?? "");
  expect(styles.length).toBeGreaterThan(2);
  const colours = styles.filter((style) => /(^|;)color:/.test(style));
  expect(colours).toHaveLength(2); // the button and the mark
  for (const style of colours) expect(style).toMatch(/(^|;)background:/);
});

test("A PNG logo is attached to the e-mail and shown in its HTML; an SVG logo is not", async () => {
  const [png, svg] = await Promise.all(
    [
      { name: "logo.png", content: Buffer.from("89504e470d0a1a0a00", "hex") },
      { name: "logo.svg", content: '<svg xmlns="http://www.w3.org/2000/svg"/>' },
    ].map(async ({ name, content }) => {
      const server = await forSuite(startSlowSmtpServer());
      const file = join(temporaryFolder(), name);
      writeFileSync(file, content);
      const env = { APP_NAME: "Acme", APP_LOGO: file, SMTP_URL: server.url };
      return mail({
        app: await startSuiteApp({ mode: "embedded", env }),
        server,
        ...env,
        APP_URL: "",
      });
    }),
  );
  expect(png?.html).toContain('<img src="cid:logo" alt="" height="28"');
  const logo = { contentId: "<logo>", mimeType: "image/png", disposition: "inline" };
  expect(png?.attachments).toEqual([expect.objectContaining(logo)]);
  expect(png?.raw).toMatch(/Content-Type: multipart\/related/i);
  expect(svg?.html).not.toContain("<img");
  expect(svg?.attachments).toEqual([]);
});
