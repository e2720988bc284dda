import { expect, test } from "vitest";
import { freshStorage } from "../../support/database/databases.ts";
import { startProcess } from "../../support/processes/processes.ts";
import { until } from "../../support/until.ts";

const STARTS = [
  { name: "by itself", env: {}, webApp: "itself" },
  { name: "behind a proxy", env: { PUBLIC_URL: "https://ai.test/app" }, webApp: "ai.test/app" },
  { name: "with WEB=off", env: { WEB: "off" }, webApp: "nowhere" },
];

test.for(STARTS)(
  "npm start: $name, prints $webApp as the address of the web app",
  async ({ env, webApp }) => {
    const started = await startProcess({ ...(await freshStorage()), LOG_LEVEL: "warn", ...env });
    await until("the end of the message", () => started.output().includes("API: "));
    const named = /^ *Web app: +(\S+)$/m.exec(started.output())?.[1];
    await started.end("SIGTERM");
    const addresses: Record<string, string | undefined> = {
      itself: `${started.url}/`,
      "ai.test/app": "https://ai.test/app/",
      nowhere: undefined,
    };
    expect(named).toBe(addresses[webApp]);
  },
);
