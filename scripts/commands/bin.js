#!/usr/bin/env -S node --max-semi-space-size=16 --disable-warning=ExperimentalWarning
/**
 * The command of the npm package. It is JavaScript because Node does not strip types of files below
 * node_modules, where an installed package is.
 */
import { readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";

const root = new URL("../..", import.meta.url).href;
registerHooks({
  load(url, context, next) {
    if (!url.startsWith(root) || !url.endsWith(".ts")) return next(url, context);
    return {
      format: "module",
      source: stripTypeScriptTypes(readFileSync(new URL(url), "utf8")),
      shortCircuit: true,
    };
  },
});
await import("./gatehouse.ts");
