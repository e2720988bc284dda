import { describe, expect, test } from "vitest";
import { startSuiteApp } from "../../support/app.ts";
import { freePort } from "../../support/network/sockets.ts";
import { startDaemon } from "../../support/processes/programs.ts";
import { forTest, isMissing } from "../../support/suites.ts";
import { until } from "../../support/until.ts";
import { WEBHOOK_ENV, webhookActions } from "../../support/webhooks.ts";

const RECEIVERS: [file: string, program: string][] = [
  ["receiver.js", process.execPath],
  ["receiver.py", "python3"],
  ["Receiver.java", "java"],
];

describe("Webhook receivers in examples/webhooks", async () => {
  const app = await startSuiteApp({ env: { ...WEBHOOK_ENV, RATE_LIMITS: "off" } });
  const { asAdmin, rename } = webhookActions(app);

  test.for(RECEIVERS.filter(([, program]) => !isMissing(program)))(
    "%s accepts signed deliveries, and rejects others",
    async ([file, program]) => {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}/hook`;
      const admin = await asAdmin();
      const events = ["user.profile_updated"];
      const { body } = await admin.post("/admin/webhooks", { url, events });
      const { id } = body.webhook;
      const env = { PORT: port, WEBHOOK_SECRET: body.secret as string };
      const isUp = () => fetch(url, { method: "POST", body: "{}" }).then((r) => r.status === 401);
      await forTest(startDaemon(program, [`examples/webhooks/${file}`], isUp, env));
      await rename();
      await until("the delivery", async () => {
        const path = `/admin/webhook-deliveries?webhookId=${id}&status=delivered`;
        return (await admin.get(path)).body.total === 1;
      });
      const old = { "webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA" };
      const forged = { ...old, "webhook-timestamp": String(Math.floor(Date.now() / 1_000)) };
      for (const headers of [old, forged, {}])
        expect((await fetch(url, { method: "POST", body: "{}", headers })).status).toBe(401);
    },
  );
});
