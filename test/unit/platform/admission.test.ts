import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { createAdmission } from "../../../services/platform/admission.ts";
import { times } from "../../support/until.ts";

/** A port with limited connections. @returns a function that connects from an address, and says whether it may */
function openPort() {
  const server = Object.assign(new EventEmitter(), { maxConnections: 0 });
  createAdmission().limitConnections(server, () => false);
  const connect = (remoteAddress: string) => {
    const socket = new Socket();
    server.emit("connection", Object.defineProperty(socket, "remoteAddress", { value: remoteAddress }));
    return !socket.destroyed;
  };
  return { connect, share: Math.max(64, Math.floor(server.maxConnections / 20)) };
}

test("Connections: IPv4 clients of a port that also takes IPv6 have a share each", () => {
  const { connect, share } = openPort();
  expect(times(share, () => connect("::ffff:192.0.2.1"))).not.toContain(false);
  expect(connect("192.0.2.1")).toBe(false);
  expect(connect("::ffff:192.0.2.2")).toBe(true);
});

test("Connections: a client with a link-local address is accepted, and counts by its network", () => {
  const { connect, share } = openPort();
  expect(times(share, () => connect("fe80::1%br-lan"))).not.toContain(false);
  expect(connect("fe80::2")).toBe(false);
});
