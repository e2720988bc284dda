import { execFile, execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { REPLY } from "../../../scripts/simulators/script.ts";
import { startSuiteApp } from "../../support/app.ts";
import { isMissing } from "../../support/suites.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const run = promisify(execFile);
const PYTHON = "/usr/bin/python3"; // of Debian, with its packaged modules
const NODE = process.execPath;
const INTERPRETERS: Record<string, string> = {
  js: NODE,
  ts: NODE,
  py: PYTHON,
  sh: "/bin/sh",
  java: "java",
};
const SCRIPTS = ["rest.sh", "rest.js", "rest.py", "grpc.sh", "grpc.js", "grpc_client.py"];
const CLIENTS = [...SCRIPTS, "java/Rest.java", "python/rest_client.py", "typescript/rest.ts"];
const VERIFIERS = ["verify.js", "verify.py", "java/Verify.java"];
const RECEIVERS = ["webhooks/receiver.js", "webhooks/receiver.py", "webhooks/Receiver.java"]; // see webhook-receivers.test.ts
const protos = temporaryFolder();

/** Whether Debian's modules are installed. In CI they count as installed. */
function hasModules(...names: string[]): boolean {
  try {
    execFileSync(PYTHON, ["-c", `import ${names}`], { stdio: "ignore" });
    return true;
  } catch {
    return Boolean(process.env.CI);
  }
}
const isInstalled = (folder: string) =>
  existsSync(`examples/${folder}/node_modules`) || Boolean(process.env.CI);
const NEEDS: Record<string, boolean> = {
  "rest.py": hasModules("requests"),
  "grpc_client.py": hasModules("grpc", "google.protobuf") && !isMissing("grpc_python_plugin"),
  "verify.py": hasModules("jwt", "cryptography"),
  "java/Rest.java": !isMissing("java"),
  "java/Verify.java": !isMissing("java"),
  "python/rest_client.py":
    isInstalled("python") &&
    hasModules("dateutil", "urllib3", "six", "certifi") &&
    !isMissing("java"),
  "typescript/rest.ts": isInstalled("typescript"),
};

describe("Examples", async () => {
  const app = await startSuiteApp(); // not shared, since the programs use the clock of the machine
  await run("buf", ["export", ".", "-o", protos]);

  async function runExample(file: string, variables: Record<string, string>): Promise<string> {
    const env = {
      ...process.env,
      GATEHOUSE_URL: app.url,
      GATEHOUSE_GRPC: app.grpcUrl,
      PROTOS: protos,
      ...variables,
    };
    const program = INTERPRETERS[file.split(".")[1] as string] as string;
    return (await run(program, [join("examples", file)], { env })).stdout;
  }

  test("each program is listed here", () => {
    const programs = readdirSync("examples", { recursive: true, encoding: "utf8" }).filter((name) =>
      /^(?!.*(node_modules|dist)).*\.(sh|js|ts|py|java)$/.test(name),
    );
    expect(programs.sort()).toEqual([...CLIENTS, ...VERIFIERS, ...RECEIVERS].sort());
  });

  test.for(CLIENTS)(
    "%s signs in, reads the profile and streams a reply",
    async (file, { skip }) => {
      skip(NEEDS[file] === false, "its packages are not installed");
      if (file === "grpc_client.py") {
        const template = readFileSync("examples/buf.gen.python.yaml", "utf8").replaceAll(
          "out: protos",
          `out: ${protos}`,
        );
        writeFileSync(join(protos, "buf.gen.yaml"), template);
        await run("buf", [
          "generate",
          "--template",
          join(protos, "buf.gen.yaml"),
          "--path",
          "proto/gatehouse",
        ]);
      }
      const cwd = join("examples", dirname(file));
      if (existsSync(`${cwd}/package.json`)) {
        if (!existsSync(`${cwd}/node_modules`))
          await run("npm", ["ci", "--no-audit", "--no-fund"], { cwd });
        const env = { ...process.env, GATEHOUSE_URL: app.url };
        for (const script of ["generate", "check"])
          await run("npm", ["run", script, "--if-present"], { cwd, env });
      }
      const user = await app.addVerifiedUser();
      const out = await runExample(file, { EMAIL: user.email, PASSWORD: user.password });
      expect(out).toContain(user.email);
      expect(out.length).toBeGreaterThan(user.email.length + 10);
      if (!file.endsWith(".sh")) expect(out).toContain(REPLY);
    },
  );

  test.for(VERIFIERS)(
    "%s accepts an access token, and rejects a changed or foreign one",
    async (file, { skip }) => {
      skip(NEEDS[file] === false, "its packages are not installed");
      const { user, accessToken } = await app.signIn(await app.addVerifiedUser());
      const ISSUER = app.settings.PUBLIC_URL as string;
      expect(await runExample(file, { TOKEN: accessToken, ISSUER })).toBe(`${user.id}\n`);
      const changed = accessToken.replace(/.{9}$/, "AAAAAAAAA");
      await expect(runExample(file, { TOKEN: changed, ISSUER })).rejects.toThrow(/[Ss]ignature/);
      await expect(
        runExample(file, { TOKEN: accessToken, ISSUER: "http://other" }),
      ).rejects.toThrow(/iss/i);
    },
  );
});
