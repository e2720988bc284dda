// An SMTP server whose replies are late.

import { createServer, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { listen } from "../network/sockets.ts";

/** A step of an SMTP conversation that ends with a reply. */
export type SmtpStep = "greeting" | "ehlo" | "mail" | "rcpt" | "data" | "dot";

/** A mail as it has arrived, with the name that its client announced. */
export type SlowMail = { ehlo: string; to: string; messageId: string; raw: string };

type Rules = {
  /** Time until the reply to a step, in ms, for a recipient where one is known. */
  delayMs?: (step: SmtpStep, to: string) => number;
  /** The reply to EHLO, by the name that is announced. */
  ehlo?: (name: string) => string;
};

/**
 * An SMTP server whose replies are as late as a test says. It stores a mail at the final dot, even
 * if the client disconnects before the reply.
 */
export async function startSlowSmtpServer(rules: Rules = {}) {
  const received: SlowMail[] = [];
  const names: string[] = [];
  const sockets = new Set<Socket>();

  async function converse(socket: Socket): Promise<void> {
    const lines = linesOf(socket);
    let [ehlo, to] = ["", ""];
    const reply = async (step: SmtpStep, text: string) => {
      await wait(rules.delayMs?.(step, to) ?? 0, undefined, { ref: false });
      if (!socket.destroyed) socket.write(`${text}\r\n`);
    };
    const commands: Record<string, (line: string) => Promise<void>> = {
      async EHLO(line) {
        ehlo = line.slice("EHLO ".length);
        names.push(ehlo);
        const answer = rules.ehlo?.(ehlo) ?? "250 slow.example";
        await reply("ehlo", answer);
        if (answer.startsWith("421")) socket.end();
      },
      MAIL: () => reply("mail", "250 ok"),
      RCPT(line) {
        to = /<(.*)>/.exec(line)?.[1] ?? "";
        return reply("rcpt", "250 ok");
      },
      async DATA() {
        await reply("data", "354 go on");
        const raw = await readContent(lines);
        const messageId = /^message-id: (.*)$/im.exec(raw)?.[1]?.trim() ?? "";
        received.push({ ehlo, to, messageId, raw });
        await reply("dot", "250 accepted");
      },
    };
    await reply("greeting", "220 slow.example ESMTP");
    for await (const line of lines) {
      const command = commands[line.slice(0, 4).toUpperCase()];
      await (command?.(line) ?? socket.write("250 ok\r\n"));
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    void converse(socket).catch(() => {});
  });
  const port = await listen(server);
  return {
    url: `smtp://127.0.0.1:${port}`,
    received,
    /** The names of all sessions. */
    names,
    rules,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Reads until the final dot. */
async function readContent(lines: AsyncGenerator<string>): Promise<string> {
  const content: string[] = [];
  for (let next = await lines.next(); next.value !== "."; next = await lines.next()) {
    if (next.done) throw new Error("the client has left");
    content.push(next.value);
  }
  return content.join("\r\n");
}

async function* linesOf(socket: Socket): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of socket) {
    const lines = (rest + (chunk as Buffer).toString("latin1")).split("\r\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
