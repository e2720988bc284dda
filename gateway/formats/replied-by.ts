import type { Started } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { AI_IGNORED } from "../../services/platform/rpc/metadata.ts";

/** Response headers with the model that replies and the ignored fields. */
export const repliedBy = ({
  provider,
  model,
  ignored,
}: Pick<Started, "provider" | "model" | "ignored">): Record<string, string> => ({
  "x-ai-provider": provider,
  "x-ai-model": model,
  ...(ignored.length > 0 && { [AI_IGNORED]: ignored.join(", ") }),
});
