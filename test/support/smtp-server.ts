import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

/** A letter that has arrived. */
export type Arrived = { to: string; messageId: string; raw: string };

/** What the sink does with a recipient or a letter: take it, refuse it by a code, in one line or more, or never answer. */
export type Mood = "take" | "hang" | { code: number; text: string | string[] };

/** An SMTP server that can be told how to treat whom. */
export async function startSink(port = 0) {
  const arrived: Arrived[] = [];
  const tries: string[] = [];
  const moods = {
    mail: (): Mood => "take",
    rcpt: (_to: string): Mood => "take",
    data: (_letter: Arrived): Mood => "take",
  };
  const answer = (mood: Mood, done: (error?: Error | null) => void) => {
    if (mood === "take") done();
    else if (mood !== "hang") done(Object.assign(new Error(), { message: mood.text, responseCode: mood.code }));
  };
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    closeTimeout: 200,
    onMailFrom: (_address, _session, done) => answer(moods.mail(), done),
    onRcptTo({ address }, _session, done) {
      tries.push(address);
      answer(moods.rcpt(address), done);
    },
    onData(stream, session, done) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        const raw = Buffer.concat(parts).toString();
        const letter = {
          to: session.envelope.rcptTo[0]?.address ?? "",
          messageId: /^message-id: (.*)$/im.exec(raw)?.[1] ?? "",
          raw,
        };
        const mood = moods.data(letter);
        if (mood === "take" || mood === "hang") arrived.push(letter);
        answer(mood, done);
      });
    },
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = server.server.address() as AddressInfo;
  return {
    url: `smtp://127.0.0.1:${address.port}`,
    port: address.port,
    arrived,
    /** Recipients, as often as they were tried. */
    tries,
    moods,
    close: () => new Promise<void>((resolve) => server.close(resolve)),
  };
}
