import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";

/**
 * Loaded before a process, which then writes the URL of each module that it loads into
 * `LOADED_MODULES`.
 */

registerHooks({
  load(url, context, nextLoad) {
    appendFileSync(process.env.LOADED_MODULES as string, `${url}\n`);
    return nextLoad(url, context);
  },
});
