import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { freePort } from "../../support/network/sockets.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";

const run = promisify(execFile);

test("npm run demo: prints commands that work as printed", async () => {
  const env = {
    PORT: await freePort(),
    DATA_DIR: temporaryFolder(),
    LOG_LEVEL: "warn",
    SMTP_URL: "smtp://a:1",
  };
  const demo = await startProcess(env, "scripts/commands/demo.ts");
  await until("the commands", () => /^curl .*\/ai\/stream .*\n/m.test(demo.output()));
  const lines = demo.output().match(/^(TOKEN=|curl ).*/gm) ?? [];
  expect(lines).toHaveLength(5);
  const [signIn, ...commands] = lines;
  const answers = await Promise.all(
    commands.map((line) => run("bash", ["-c", `${signIn}\n${line}`])),
  );
  const [profile, providers, chat, stream] = answers.map(({ stdout }) => stdout);
  expect(JSON.parse(profile as string)).toMatchObject({
    email: "user@example.com",
    emailVerified: true,
  });
  expect(JSON.parse(providers as string)).toMatchObject(Array(4).fill({ configured: true }));
  expect(JSON.parse(chat as string)).toMatchObject({
    content: expect.stringContaining('You said: "Hello!"'),
  });
  expect(stream).toMatch(/^data: \{"chunk":".*data: \[DONE\]\n\n$/s);
  expect(await demo.end("SIGTERM")).toBe(0);
});
