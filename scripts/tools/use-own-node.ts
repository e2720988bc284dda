/**
 * Makes npm scripts use the Node of the machine if it is new enough. Otherwise the one of the
 * packages `node-linux-*`, which `npm ci` links, would take precedence over a Node with newer
 * security updates. First step of `npm ci`.
 */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";

const OLDEST = { major: 22, minor: 18 };
const own = process.env.npm_node_execpath ?? "node_modules"; // the Node that npm itself runs on
const version = own.includes("node_modules")
  ? ""
  : execFileSync(own, ["--version"], { encoding: "utf8" });
const [major = 0, minor = 0] = version.replace("v", "").split(".").map(Number);
if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor)) {
  rmSync("node_modules/.bin/node", { force: true });
}
