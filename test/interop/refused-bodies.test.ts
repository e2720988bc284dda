import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { createRemoteTransport } from "../../gateway/remote-transport.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { testApp } from "../app.ts";
import { times } from "../until.ts";

const app = await testApp();
const asked = (content: string) => ({ provider: "provider-a", messages: [{ role: "user", content }] });

test.each([
  ["a client's connection", createGrpcTransport({ baseUrl: app.grpcUrl })],
  ["a gateway's connections", createRemoteTransport(app.grpcUrl)],
])(
  "large requests that are refused do not clog %s",
  async (_whose, transport) => {
    const { streamChat } = createClient(AIService, transport);
    const read = async (content: string, headers: Record<string, string> = {}) => {
      for await (const { chunk } of streamChat(asked(content), { headers })) if (chunk) return chunk;
    };
    for (let round = 0; round < 15; round++) {
      const refused = times(20, () =>
        expect(read("x".repeat(250_000))).rejects.toMatchObject({ code: Code.Unauthenticated }),
      );
      await Promise.all(refused);
    }
    const { accessToken } = await app.signIn();
    for (let i = 0; i < 8; i++)
      expect(await read("case: plain", { authorization: `Bearer ${accessToken}` })).toBeTruthy();
  },
  60_000,
);
