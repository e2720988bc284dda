import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { variableOf } from "../../services/platform/config/config-kinds.ts";
import {
  commonVariables,
  gatewayVariables,
  servicesVariables,
} from "../../services/platform/config/variables.ts";
import { freshStorage } from "../support/database/databases.ts";
import { freePort } from "../support/network/sockets.ts";
import { startProcess } from "../support/processes/processes.ts";
import { forTest } from "../support/suites.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const read = (file: string) => readFileSync(`deploy/${file}`, "utf8");
const has = (program: string) => spawnSync("which", [program]).status === 0;
const dockerfile = read("Dockerfile").replaceAll("\\\n", "");

test("Dockerfile: its files start the service, which writes no additional file, and its health check passes", async () => {
  const image = temporaryFolder();
  for (const [, from = "", to = ""] of dockerfile.matchAll(
    /^COPY --from=build \/app\/(\S+) (\S+)$/gm,
  )) {
    const target = join(image, to === "./" ? from : to);
    mkdirSync(dirname(target), { recursive: true });
    if (from === "node_modules") symlinkSync(resolve(from), target);
    else cpSync(from, target, { recursive: true });
  }
  const files = () =>
    readdirSync(image, { recursive: true, encoding: "utf8" })
      .filter((name) => !name.startsWith("node_modules/")) // a link to the folder of this checkout
      .sort();
  const before = files();
  const [, ENV = ""] = /^ENV (.*)$/m.exec(dockerfile) ?? [];
  const [PORT, GRPC_PORT] = [await freePort(), await freePort()];
  const env = {
    ...Object.fromEntries(ENV.split(" ").map((pair) => pair.split("="))),
    ...(await freshStorage()),
    ...{
      PORT,
      GRPC_PORT,
      SECRET_KEY: randomBytes(32).toString("base64"),
      SMTP_URL: "smtp://127.0.0.1:1",
    },
  };
  const ready = /events on (http:\/\/[\d.]+:\d+)/;
  const running = await forTest(
    startProcess(env, [join(image, "scripts/commands/gatehouse.ts"), "start"], ready),
  );
  const [, check = "[]"] =
    /^ {2}CMD (\[.*\])$/m.exec(dockerfile.replace(/HEALTHCHECK.*?CMD/, "HEALTHCHECK\n  CMD")) ?? [];
  const [, ...words] = JSON.parse(check) as string[];
  execFileSync(process.execPath, words, { env });
  expect(await (await fetch(running.url)).text()).toMatch(/<script [^>]*src="[^"]*assets\//);
  expect(() =>
    execFileSync(process.execPath, words, { env: { PORT: "1" }, stdio: "ignore" }),
  ).toThrow();
  expect(files()).toEqual(before);
  expect(dockerfile).toMatch(/^USER 1000:1000$/m);
  expect(await running.end("SIGTERM")).toBe(0);
});

test("npm pack: the package starts in node_modules, with its web app, and prints its version and its commands", async () => {
  const folder = temporaryFolder();
  execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], {
    stdio: "pipe",
  }); // built already
  const [archive = ""] = readdirSync(folder);
  const root = join(folder, "node_modules/gatehouse");
  mkdirSync(root, { recursive: true });
  execFileSync("tar", ["-xf", join(folder, archive), "-C", root, "--strip-components=1"]);
  symlinkSync(resolve("node_modules"), join(root, "node_modules"));
  const { bin, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const command = join(root, bin.gatehouse);
  const run = (...args: string[]) =>
    execFileSync(process.execPath, [command, ...args], { stdio: "pipe" });
  expect(run("--version").toString()).toBe(`${version}\n`);
  expect(() => run("begin")).toThrow(/start \| start:gateway/);
  const running = await startProcess(await freshStorage(), [command, "start"]);
  expect(await (await fetch(running.url)).text()).toMatch(/<script [^>]*src="[^"]*assets\//);
  expect((await fetch(`${running.url}/docs`)).status).toBe(200);
  expect(await running.end("SIGTERM")).toBe(0);
});

test("systemd and Compose: always restart the service, without a start limit", () => {
  const unit = read("systemd/gatehouse@.service");
  for (const line of ["Restart=always", "StartLimitIntervalSec=0"])
    expect(unit.split("\n")).toContain(line);
  expect(readFileSync("docker-compose.yml", "utf8")).toMatch(
    /^ *restart: (always|unless-stopped|on-failure)$/m,
  );
});

const variables = Object.keys({
  ...commonVariables,
  ...gatewayVariables,
  ...servicesVariables,
}).map(variableOf);

test.each([
  { file: "docker-compose.yml", secrets: [], services: ["gatehouse"] },
  {
    file: "docker-compose.replicas.yml",
    secrets: ["INTERNAL_SECRET", "SECRET_KEY", "POSTGRES_PASSWORD", "REDIS_PASSWORD"],
    services: ["services", "gateway-1", "gateway-2"],
  },
])(
  "$file: requires its secrets, runs the image read-only, and mounts only its data volume",
  (each) => {
    const compose = parse(readFileSync(each.file, "utf8"), { merge: true });
    const text = JSON.stringify(compose);
    for (const secret of each.secrets) {
      expect(text).toContain(`\${${secret}:?`);
      expect(text).not.toContain(`\${${secret}:-`);
    }
    for (const name of each.services) {
      const { build, environment, read_only, volumes = [] } = compose.services[name];
      expect([build.dockerfile, read_only]).toEqual(["deploy/Dockerfile", true]);
      for (const volume of volumes) expect(volume).toMatch(/^data:/);
      const own = Object.keys(environment).filter((variable) => !variable.endsWith("_API_KEY"));
      expect(own.filter((variable) => !variables.includes(variable))).toEqual([]);
    }
  },
);

test("Kubernetes and systemd: the variables that they set exist", () => {
  const literals = [...read("kubernetes/kustomization.yaml").matchAll(/^ {6}- (\w+)=/gm)].map(
    ([, name]) => name,
  );
  const [, environment = ""] = /^Environment=(.*)$/m.exec(read("systemd/gatehouse@.service")) ?? [];
  const unit = environment.match(/\b[A-Z_]+(?==)/g) ?? [];
  expect([literals.length, unit.length]).toEqual([7, 2]);
  expect([...literals, ...unit].filter((name) => !variables.includes(name as string))).toEqual([]);
});

test.skipIf(!has("kubectl"))(
  "Kubernetes: kustomize builds all objects, with one image and existing paths",
  () => {
    const built = execFileSync("kubectl", ["kustomize", "deploy/kubernetes"]).toString();
    const kinds =
      "ConfigMap Service Deployment PodDisruptionBudget HorizontalPodAutoscaler Job NetworkPolicy".split(
        " ",
      );
    for (const kind of kinds) expect(built).toMatch(new RegExp(`^kind: ${kind}$`, "m"));
    expect(new Set(built.match(/image: .*/g)).size).toBe(1);
    expect(/exec:\s+command:\s+- (\S+)/.exec(built)?.[1]).toBe("node"); // the image has no other program
    for (const path of ["/health/ready", "/health/live"]) expect(built).toContain(`path: ${path}`);
  },
);

test.skipIf(!has("systemd-analyze"))("systemd: the unit is valid and sandboxed", () => {
  const unit = join(temporaryFolder(), "gatehouse@.service");
  const text = read("systemd/gatehouse@.service");
  expect(
    existsSync(/\/opt\/gatehouse\/(\S+)/.exec(text.slice(text.indexOf("[Service]")))?.[1] ?? ""),
  ).toBe(true);
  writeFileSync(unit, text.replace("/usr/bin/node", process.execPath));
  expect(execFileSync("systemd-analyze", ["verify", unit], { stdio: "pipe" }).toString()).toBe("");
  execFileSync("systemd-analyze", ["security", "--offline=true", "--threshold=20", unit], {
    stdio: "pipe",
  });
});
