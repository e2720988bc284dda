import { expect, test } from "vitest";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { createAdmission } from "../../../services/platform/gate/admission.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { startSuiteApp } from "../../support/app.ts";

const MIB = 1024 * 1024;
/** Memory for requests. A tenth of it may hold bodies and replies. */
const BUDGET_BYTES = 24 * MIB;
const HELD_BYTES = BUDGET_BYTES / 10;
/** What a provider may have sent beyond what is held: the framing of events, buffers of sockets. */
const UNREAD_BYTES = 16 * MIB;

const app = await startSuiteApp({
  mode: "embedded",
  admission: createAdmission({ budgetBytes: BUDGET_BYTES }),
  env: { RATE_LIMITS: "off" },
});

test.each(["endless", "endless-event", "large-reply 100000000"])(
  "POST /ai/chat, Chat: a reply that exceeds the memory of the process fails early and releases the memory: %s",
  async (name) => {
    const account = await app.signIn();
    const before = app.providers[0]?.requests.length ?? 0;
    const tooLarge = expect.stringContaining("reply too large");
    const { status, body } = await account.post("/ai/chat", conversationOf(`case: ${name}`));
    expect({ status, body }).toMatchObject({ status: 500, body: { message: tooLarge } });
    const call = app.grpc(AIService).chat(conversationOf(`case: ${name}`), account);
    await expect(call).rejects.toMatchObject({ rawMessage: tooLarge });
    for (const { sentBytes } of app.providers[0]?.requests.slice(before) ?? [])
      expect(sentBytes).toBeLessThan(HELD_BYTES + UNREAD_BYTES);
    const largest = conversationOf(`case: large-reply ${HELD_BYTES - 100_000}`);
    expect(await account.post("/ai/chat", largest)).toMatchObject({ status: 200 });
  },
);
