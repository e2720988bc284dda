import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startApp } from "../../support/app.ts";
import { createDatabase } from "../../support/database/databases.ts";
import { passkeyActions } from "../../support/passkeys.ts";
import { forTest } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

test("WELL_KNOWN: serves the files of a directory as JSON, and nothing else", async () => {
  const folder = temporaryFolder();
  const links = '[{"relation":["delegate_permission/common.get_login_creds"]}]';
  writeFileSync(join(folder, "assetlinks.json"), links);
  const mounted = join(folder, "..2026_11_28"); // as Kubernetes mounts a ConfigMap
  mkdirSync(mounted);
  writeFileSync(join(mounted, "apple-app-site-association"), "{}");
  symlinkSync("..2026_11_28", join(folder, "..data"));
  symlinkSync("..data/apple-app-site-association", join(folder, "apple-app-site-association"));
  mkdirSync(join(folder, "acme-challenge"));
  const app = await forTest(startApp({ mode: "embedded", env: { WELL_KNOWN: folder } }));
  const get = (path: string) => fetch(`${app.url}/.well-known/${path}`);
  const sent = await get("assetlinks.json");
  expect([sent.status, await sent.text()]).toEqual([200, links]);
  expect(sent.headers.get("content-type")).toContain("application/json");
  expect((await get("apple-app-site-association")).status).toBe(200);
  expect((await get("passkey-endpoints")).status).toBe(200);
  for (const path of [
    "webauthn",
    "acme-challenge",
    "..data",
    "..%2fetc%2fpasswd",
    "%2e%2e/package.json",
  ])
    expect((await get(path)).status).toBe(404);
});

test.skipIf(!process.env.TEST_SERVERS)(
  "PASSKEY_RP_ID: the start warns about passkeys that belong to another domain",
  async () => {
    const env = { DATABASE_URL: await createDatabase(), DATA_DIR: temporaryFolder() };
    const before = await startApp({ mode: "servers", env });
    await passkeyActions(before).addUser();
    await before.close();
    const moved = { ...env, PASSKEY_RP_ID: "other.example" };
    const after = await forTest(startApp({ mode: "servers", env: moved }));
    expect(after.logs.join("")).toContain("some stored passkeys belong to another PASSKEY_RP_ID");
  },
);
