import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { createPortGuard } from "../../../services/platform/gate/open-calls.ts";
import { createTrustedProxies } from "../../../services/platform/gate/proxies.ts";
import { times } from "../../support/tally.ts";

/**
 * A port with limited connections.
 * @returns a function that connects from an address, and says whether it may
 */
function openPort() {
  const server = Object.assign(new EventEmitter(), { maxConnections: 0, listening: true });
  const admission = createAdmission();
  const proxies = createTrustedProxies([]);
  createPortGuard({ admission, proxies, isProbe: () => false }).watch(server);
  const connect = (remoteAddress: string) => {
    const socket = new Socket();
    server.emit(
      "connection",
      Object.defineProperty(socket, "remoteAddress", { value: remoteAddress }),
    );
    return !socket.destroyed;
  };
  return { connect, share: Math.max(64, Math.floor(server.maxConnections / 20)) };
}

test.each([
  [
    "IPv4 clients of a port that also takes IPv6 have",
    "::ffff:192.0.2.1",
    "192.0.2.1",
    "::ffff:192.0.2.2",
  ],
  ["the clients of a link-local network have", "fe80::1%br-lan", "fe80::2", "192.0.2.1"],
])("Connections: %s a share each", (_who, address, same, other) => {
  const { connect, share } = openPort();
  expect(times(share, () => connect(address))).not.toContain(false);
  expect([connect(same), connect(other)]).toEqual([false, true]);
});
