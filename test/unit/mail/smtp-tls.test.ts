import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { SMTPServer } from "smtp-server";
import { expect, test } from "vitest";
import { createMailTransport } from "../../../services/mail/transport.ts";

test("SMTP: the password is sent without TLS only to this machine, or if the URL allows it", async () => {
  const told: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth({ username }, _session, done) {
      told.push(username ?? "");
      done(null, { user: username });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.server.address() as AddressInfo;
  const send = async (url: string) => {
    const config = { mail: { smtpUrl: url, from: { name: "", address: "us@example.com" } }, dataDir: "" } as Parameters<
      typeof createMailTransport
    >[0];
    const sender = createMailTransport(config, pino({ level: "silent" }));
    const letter = { to: "ann@example.com", subject: "Hello", text: "Hello.", messageId: "<1@x>" };
    const outcome = await sender.send(letter).then(
      () => "sent",
      () => "refused",
    );
    sender.close();
    return outcome;
  };
  const elsewhere = `smtp://elsewhere:secret@0.0.0.0:${port}`; // leads here, by an address that is not this machine's name
  expect(await send(elsewhere)).toBe("refused");
  expect(told).toEqual([]);
  expect(await send(`${elsewhere.replace("elsewhere", "allowed")}?requireTLS=false`)).toBe("sent");
  expect(await send(`smtp://near:secret@127.0.0.1:${port}`)).toBe("sent");
  expect(told).toEqual(["allowed", "near"]);
  await new Promise<void>((resolve) => server.close(resolve));
});
