import { SMTPServer } from "smtp-server";
import { expect, test } from "vitest";
import { createMailTransport } from "../../../services/mail/transport.ts";
import { silent } from "../../support/log.ts";
import { listen } from "../../support/sockets.ts";

test("SMTP: the password is sent without TLS only to this machine, or if the URL allows it", async () => {
  const users: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth({ username }, _session, done) {
      users.push(username ?? "");
      done(null, { user: username });
    },
  });
  const port = await listen(server.server);
  const send = async (url: string) => {
    const config = { mail: { smtpUrl: url, from: { name: "", address: "us@example.com" } }, dataDir: "" } as Parameters<
      typeof createMailTransport
    >[0];
    const sender = createMailTransport(config, silent);
    const letter = { to: "ann@example.com", subject: "Hello", text: "Hello.", messageId: "<1@x>" };
    const outcome = await sender.send(letter).then(
      () => "sent",
      () => "refused",
    );
    sender.close();
    return outcome;
  };
  const elsewhere = `smtp://elsewhere:secret@0.0.0.0:${port}`; // this server, by an address that is not the name of this machine
  expect(await send(elsewhere)).toBe("refused");
  expect(users).toEqual([]);
  expect(await send(`${elsewhere.replace("elsewhere", "allowed")}?requireTLS=false`)).toBe("sent");
  expect(await send(`smtp://near:secret@127.0.0.1:${port}`)).toBe("sent");
  expect(users).toEqual(["allowed", "near"]);
  await new Promise<void>((resolve) => server.close(resolve));
});
