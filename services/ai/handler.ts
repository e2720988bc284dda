import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { sessionCallOf, type UserCall, userCallOf } from "../call.ts";
import { admittedKey } from "../platform/gate/server-hooks.ts";
import { AI_IGNORED } from "../platform/rpc/metadata.ts";
import {
  adjustBudget,
  listAllBudgets,
  listOwnBudgets,
  removeBudget,
  setBudget,
} from "./budgets/manage.ts";
import type { Catalogue } from "./catalogue.ts";
import { type Conversation, chat, findTarget, streamChat } from "./chat.ts";
import { complete } from "./complete.ts";
import { createEmbeddings } from "./create-embeddings.ts";
import { exportUsage } from "./export-usage.ts";
import { listProviderStates } from "./list-provider-states.ts";
import { listUsage, listUsageOfAll } from "./list-usage.ts";
import { chatModels, findListedModel, type ListedName, listModels } from "./models.ts";
import { countTokens, relay } from "./relay/relay.ts";
import { sumUsage } from "./sum-usage.ts";

/** Maps messages to operations and back. Contains no decisions. */
export const aiHandler: ServiceImpl<typeof AIService> = {
  listProviders(_req, ctx) {
    const { ai, principal } = userCallOf(ctx);
    const listed = ai.catalogue.providers.map((entry) => {
      const models = chatModels(entry, principal);
      return {
        provider: entry.id,
        displayName: entry.displayName,
        defaultModel: models[0]?.name ?? "",
        configured: ai.providers.byId.has(entry.id),
        ...(models.some(({ price }) => price) && { currency: ai.catalogue.currency }),
        models: models.map(({ name, displayName, temperature }) => ({
          model: name,
          displayName,
          ignored: temperature === "refused" ? ["temperature"] : [],
        })),
      };
    });
    return { providers: listed.filter(({ models }) => models.length > 0) };
  },
  async chat(req, ctx) {
    const call = userCallOf(ctx);
    reportIgnored(call, ctx, req);
    return chat(call, req, responseOf(ctx));
  },
  streamChat(req, ctx) {
    const call = userCallOf(ctx);
    reportIgnored(call, ctx, req);
    return streamChat(call, req, responseOf(ctx));
  },
  complete(req, ctx) {
    const report = (names: readonly string[]) =>
      ctx.responseHeader.set(AI_IGNORED, names.join(", "));
    return complete(userCallOf(ctx), req, report, responseOf(ctx));
  },
  createEmbeddings(req, ctx) {
    if (req.ignored.length > 0) ctx.responseHeader.set(AI_IGNORED, req.ignored.join(", "));
    return createEmbeddings(userCallOf(ctx), req, responseOf(ctx));
  },
  relayMessages(req, ctx) {
    return relay(userCallOf(ctx), "messages", req, responseOf(ctx));
  },
  async countMessageTokens(req, ctx) {
    const { answer: body, ignored } = await countTokens(userCallOf(ctx), req);
    if (ignored.length > 0) ctx.responseHeader.set(AI_IGNORED, ignored.join(", "));
    return { body };
  },
  relayResponses(req, ctx) {
    return relay(userCallOf(ctx), "responses", req, responseOf(ctx));
  },
  listModels(_req, ctx) {
    const call = userCallOf(ctx);
    return { models: listModels(call).map((model) => listedModelOf(model, call.ai.catalogue)) };
  },
  getModel({ model }, ctx) {
    const call = userCallOf(ctx);
    return { model: listedModelOf(findListedModel(call, model), call.ai.catalogue) };
  },
  async listUsage(req, ctx) {
    const call = userCallOf(ctx);
    return { usage: await listUsage(call, { ...req, userId: call.principal.user.id }) };
  },
  async listAllUsage(req, ctx) {
    return { usage: await listUsageOfAll(userCallOf(ctx), req) };
  },
  async exportUsage(req, ctx) {
    return { csv: await exportUsage(userCallOf(ctx), req) };
  },
  listProviderStates: (_req, ctx) => ({ providers: listProviderStates(userCallOf(ctx)) }),
  sumUsage: (req, ctx) => sumUsage(userCallOf(ctx), req),
  listBudgets: (req, ctx) => listAllBudgets(sessionCallOf(ctx), req),
  async setBudget(req, ctx) {
    return { budget: await setBudget(sessionCallOf(ctx), req) };
  },
  async deleteBudget({ id }, ctx) {
    await removeBudget(sessionCallOf(ctx), id);
    return { message: "The budget has been deleted." };
  },
  async adjustBudget(req, ctx) {
    return { budget: await adjustBudget(sessionCallOf(ctx), req) };
  },
  async listOwnBudgets(_req, ctx) {
    return { budgets: await listOwnBudgets(sessionCallOf(ctx)) };
  },
};

const listedModelOf = ({ name, provider = "" }: ListedName, { checkedOn }: Catalogue) => ({
  model: name,
  provider,
  ...(checkedOn && { checkedAt: timestampFromDate(new Date(checkedOn)) }),
});

const responseOf = ({ values, responseHeader: header }: HandlerContext) => ({
  header,
  memory: values.get(admittedKey)?.permit,
});

/**
 * Reports a temperature that the model does not accept in a response header, since streams have no
 * other place for it.
 */
function reportIgnored(
  { ai, principal }: Pick<UserCall, "ai" | "principal">,
  { responseHeader }: HandlerContext,
  req: Conversation,
): void {
  const isIgnored =
    findTarget(ai.catalogue, req, principal).model?.temperature === "refused" &&
    req.temperature !== undefined;
  if (isIgnored) responseHeader.set(AI_IGNORED, "temperature");
}
