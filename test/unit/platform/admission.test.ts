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
  {
    who: "IPv4 clients of a port that also takes IPv6 have",
    address: "::ffff:192.0.2.1",
    same: "192.0.2.1",
    other: "::ffff:192.0.2.2",
  },
  {
    who: "the clients of a link-local network have",
    address: "fe80::1%br-lan",
    same: "fe80::2",
    other: "192.0.2.1",
  },
])("Connections: $who a share each", ({ address, same, other }) => {
  const { connect, share } = openPort();
  expect(times(share, () => connect(address))).not.toContain(false);
  expect([connect(same), connect(other)]).toEqual([false, true]);
});

test("Admission: workers divide the memory, and with it their connections and requests", () => {
  const [one, four] = [createAdmission(), createAdmission({ workers: 4 })];
  expect(four.maxConnections).toBeLessThanOrEqual(one.maxConnections / 4);
});
