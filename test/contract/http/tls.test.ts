import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type ConnectionOptions, connect as connectTls, type SecureVersion } from "node:tls";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, describe, expect, test } from "vitest";
import {
  createInternalTransport,
  type ServicesTransport,
} from "../../../gateway/transport/internal.ts";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import type { CallHead } from "../../../services/platform/gate/server-hooks.ts";
import type { TlsFiles } from "../../../services/platform/process/tls-files.ts";
import { listenGrpc } from "../../../services/servers/grpc-server.ts";
import { listenInternal } from "../../../services/servers/internal-server.ts";

/** Two self-signed certificates. */
const pair = (name: string) => ({
  cert: `test/support/network/tls/${name}.pem`,
  key: `test/support/network/tls/${name}.key`,
});
const [ours, foreign] = [pair("ours"), pair("others")];
const app: Parameters<typeof listenGrpc>[0] = {
  routes: (router) => router.service(AuthService, { forgotPassword: () => ({ message: "Sent." }) }),
  interceptors: [],
};
const secret = "shared-by-gateway-and-services";
const local = { grpcHost: "127.0.0.1", grpcPort: 0, grpcReflection: false };
/** The listeners of services, and the transports of gateways to them. */
const ways = {
  gRPC: {
    listen: (tls: TlsFiles) => listenGrpc(app, { ...local, tls }),
    connect: (port: number, files: TlsFiles) =>
      createServicesTransport(`https://127.0.0.1:${port}`, files),
  },
  "the internal listener": {
    listen: (tls: TlsFiles) => listenInternal(app, { url: "tls://127.0.0.1:0", secret, tls }),
    connect: (port: number, files: TlsFiles) =>
      createInternalTransport(`tls://127.0.0.1:${port}`, secret, files),
  },
};

test("gRPC: a caller with a client certificate passes on its client's address, and any other caller does not", async () => {
  const addresses: (string | undefined)[] = [];
  const gate = async (call: CallHead) => {
    addresses.push(call.open.address);
    const permit = { reserveBody() {}, release() {} };
    return { ...call, credential: undefined, onCredentialEnded() {}, rateLimit: undefined, permit };
  };
  const headers = { "x-forwarded-for": "203.0.113.9" };
  for (const ca of [ours.cert, undefined]) {
    const server = await listenGrpc({ ...app, gate }, { ...local, tls: { ...ours, ca } });
    const nodeOptions = {
      ca: readFileSync(ours.cert),
      cert: readFileSync(ours.cert),
      key: readFileSync(ours.key),
    };
    const transport = createGrpcTransport({
      baseUrl: `https://127.0.0.1:${server.port}`,
      nodeOptions,
    });
    await createClient(AuthService, transport).forgotPassword({}, { headers });
    await server.close(0);
  }
  expect(addresses).toEqual(["203.0.113.9", "127.0.0.1"]);
});

const only = (ciphers: string, version: SecureVersion = "TLSv1.2"): ConnectionOptions => ({
  ciphers: `${ciphers}:@SECLEVEL=0`,
  minVersion: version,
  maxVersion: version,
});
const handshakes = [
  { what: "TLS 1.3", offer: { minVersion: "TLSv1.3" }, verdict: "accepts" },
  { what: "TLS 1.2 and AES-GCM", offer: only("ECDHE+AESGCM"), verdict: "accepts" },
  { what: "TLS 1.2 and ChaCha20", offer: only("ECDHE+CHACHA20"), verdict: "accepts" },
  { what: "TLS 1.2 and CBC", offer: only("ECDHE+AES:!AESGCM:!AESCCM"), verdict: "refuses" },
  { what: "TLS 1.1", offer: only("ALL", "TLSv1.1"), verdict: "refuses" },
  { what: "TLS 1.0", offer: only("ALL", "TLSv1"), verdict: "refuses" },
] satisfies { what: string; offer: ConnectionOptions; verdict: string }[];

/** Whether a server of `ours` accepts what a client offers. */
async function shakesHands(port: number, offer: ConnectionOptions): Promise<boolean> {
  const ca = readFileSync(ours.cert);
  const options = { host: "127.0.0.1", port, ca, ALPNProtocols: ["h2", "http/1.1"], ...offer };
  const socket = connectTls(options);
  const isSecure = await once(socket, "secureConnect").then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isSecure;
}

/** Whether a call over a transport succeeds. */
async function succeeds(transport: ServicesTransport): Promise<boolean> {
  const answer = await createClient(AuthService, transport)
    .forgotPassword({})
    .catch(() => undefined);
  transport.close();
  return answer?.message === "Sent.";
}

describe.each(Object.entries(ways))(
  "TLS between gateway and services over %s",
  async (_name, { listen, connect }) => {
    const [open, mutual] = await Promise.all([listen(ours), listen({ ...ours, ca: ours.cert })]);
    afterAll(() => Promise.all([open.close(0), mutual.close(0)]));

    test("trusts only the configured authority", async () => {
      expect(await succeeds(connect(open.port, { ca: ours.cert }))).toBe(true);
      expect(await succeeds(connect(open.port, { ca: foreign.cert }))).toBe(false);
      expect(await succeeds(connect(open.port, {}))).toBe(false);
    });

    test.each(handshakes)("$verdict a client with $what", async ({ offer, verdict }) => {
      expect(await shakesHands(open.port, offer)).toBe(verdict === "accepts");
    });

    test("presents the gateway's certificate if the services require one", async () => {
      expect(await succeeds(connect(mutual.port, { ...ours, ca: ours.cert }))).toBe(true);
      expect(await succeeds(connect(mutual.port, { ca: ours.cert }))).toBe(false);
      expect(await succeeds(connect(mutual.port, { ...foreign, ca: ours.cert }))).toBe(false);
    });

    test("unusable files are reported with the names of their variables, on either side", async () => {
      for (const change of [{ cert: "missing.pem" }, { key: foreign.key }, { ca: "missing.pem" }]) {
        const wrong = { ...ours, ...change };
        expect(() => connect(1, wrong)).toThrow(/^GRPC_TLS_CERT, .* can't be used: /);
        await expect(listen(wrong)).rejects.toThrow(/^GRPC_TLS_CERT, .* can't be used: /);
      }
    });
  },
);
