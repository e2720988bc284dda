import { createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServicesTransport } from "../../../gateway/transport/services.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { type GrpcServer, listenGrpc } from "../../../services/grpc/server.ts";

/** Certificates that vouch for themselves: ours, and somebody else's. */
const pair = (name: string) => ({ cert: `test/support/tls/${name}.pem`, key: `test/support/tls/${name}.key` });
const [ours, others] = [pair("ours"), pair("others")];
const app: Parameters<typeof listenGrpc>[0] = {
  routes: (router) => router.service(AuthService, { forgotPassword: () => ({ message: "Sent." }) }),
  interceptors: [],
};
const listen = (tls: { cert: string; key: string; ca?: string | undefined }) =>
  listenGrpc(app, { grpc: { host: "127.0.0.1", port: 0, reflection: false, tls: { ca: undefined, ...tls } } });

/** Whether a gateway with these files and the services at this port understand each other. */
async function agree({ port }: GrpcServer, files: Parameters<typeof createServicesTransport>[1]): Promise<boolean> {
  const transport = createServicesTransport(`https://127.0.0.1:${port}`, files);
  try {
    return await createClient(AuthService, transport)
      .forgotPassword({})
      .then(
        ({ message }) => message === "Sent.",
        () => false,
      );
  } finally {
    transport.close();
  }
}

describe("TLS between gateway and services", () => {
  let open: GrpcServer;
  let mutual: GrpcServer;
  beforeAll(async () => {
    [open, mutual] = await Promise.all([listen(ours), listen({ ...ours, ca: ours.cert })]);
  });
  afterAll(() => Promise.all([open.close(0), mutual.close(0)]));

  test("trusts its own authority only", async () => {
    expect(await agree(open, { ca: ours.cert })).toBe(true);
    expect(await agree(open, { ca: others.cert })).toBe(false);
    expect(await agree(open, {})).toBe(false);
  });

  test("presents the gateway's certificate where the services want one", async () => {
    expect(await agree(mutual, { ...ours, ca: ours.cert })).toBe(true);
    expect(await agree(mutual, { ca: ours.cert })).toBe(false);
    expect(await agree(mutual, { ...others, ca: ours.cert })).toBe(false);
  });
});

test("TLS: unusable files are reported by the names of their variables, on either side", async () => {
  for (const wrong of [
    { ...ours, cert: "missing.pem" },
    { ...ours, key: others.key },
    { ...ours, ca: "missing.pem" },
  ]) {
    expect(() => createServicesTransport("https://127.0.0.1:1", wrong)).toThrow(/^GRPC_TLS_CERT, .* can't be used: /);
    await expect(listen(wrong)).rejects.toThrow(/^GRPC_TLS_CERT, .* can't be used: /);
  }
});
