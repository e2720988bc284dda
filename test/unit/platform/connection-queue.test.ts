import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createConnectionQueue } from "../../../services/platform/gate/connection-queue.ts";
import { forTest } from "../../support/suites.ts";
import { times } from "../../support/tally.ts";
import { until } from "../../support/until.ts";

const ADDRESS = "192.0.2.1";

/** A server whose connections all count as connections of one address. */
async function openQueue() {
  const served: { socket: Socket; at: number }[] = [];
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true });
  const queue = createConnectionQueue(
    (socket) => served.push({ socket, at: performance.now() }),
    () => server.listening,
  );
  server.on("connection", (socket) => {
    accepted.push(socket);
    queue.add(socket, ADDRESS);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as { port: number };
  await forTest({
    close: () => {
      for (const socket of accepted) socket.destroy();
      server.close();
    },
  });
  const open = () => connect(port, "127.0.0.1").on("error", () => {});
  return { server, queue, served, accepted, open };
}

test("Connection queue: serves every connection of an address", async () => {
  const { served, open } = await openQueue();
  for (const client of times(50, open)) client.write("hello");
  await until("all to be served", () => served.length === 50);
});

test.each([
  { cuts: 1, leastMs: 3 * 45 },
  { cuts: 4, leastMs: 3 * 190 },
])(
  "Connection queue: $cuts interrupted connections slow an address down to $leastMs ms for three",
  async (each) => {
    const { queue, served, open } = await openQueue();
    for (const _ of times(each.cuts, String)) queue.slowDown(ADDRESS, 60_000);
    times(4, open);
    await until("all to be served", () => served.length === 4);
    const [first, , , last] = served;
    expect(Number(last?.at) - Number(first?.at)).toBeGreaterThan(each.leastMs);
  },
);

test("Connection queue: closes a waiting connection whose client has disconnected", async () => {
  const { queue, served, accepted, open } = await openQueue();
  queue.slowDown(ADDRESS, 60_000);
  const clients = times(3, open);
  await until("all to be accepted", () => accepted.length === 3);
  for (const client of clients) client.end();
  await until("the waiting ones to be closed", () =>
    accepted.slice(1).every(({ destroyed }) => destroyed),
  );
  expect(served).toHaveLength(1);
});

test("Connection queue: closes waiting connections once the server has stopped listening", async () => {
  const { server, queue, served, accepted, open } = await openQueue();
  queue.slowDown(ADDRESS, 60_000);
  times(20, open);
  await until("all to be accepted", () => accepted.length === 20);
  server.close();
  await until("the waiting ones to be closed", () =>
    accepted.every((socket) => socket.destroyed || served.some((each) => each.socket === socket)),
  );
  expect(served.length).toBeLessThan(10);
});
