/**
 * Builds the web app into web/dist, with a gzipped copy of each file. Without Vite, which is a
 * development package (`npm ci --omit=dev`), an earlier build stays in use. Without a build the
 * gateway serves only the API.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const folder = resolve(import.meta.dirname, "../../web");
const dist = join(folder, "dist");

const vite = await import("vite").catch(() => undefined);
if (vite && existsSync(join(folder, "index.html"))) {
  await vite.build({ configFile: join(folder, "vite.config.ts"), logLevel: "warn" });
  for (const name of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
    if (/\.(html|js|css|svg)$/.test(name)) {
      const path = join(dist, name);
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  }
} else {
  const outcome = existsSync(join(dist, "index.html"))
    ? "the earlier build stays in use"
    : "the web app is off";
  process.stderr.write(`The web app was not built, since Vite or web/ is missing: ${outcome}.\n`);
}
