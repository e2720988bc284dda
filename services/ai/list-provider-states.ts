import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { ProviderStateSchema } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { UserCall } from "../call.ts";

/** The state of each provider of the catalogue in this process. */
export function listProviderStates({
  ai: { catalogue, providers },
}: Pick<UserCall, "ai">): MessageInitShape<typeof ProviderStateSchema>[] {
  const states = providers.states();
  return catalogue.providers.map(({ id: provider }) => {
    const state = states.get(provider);
    if (!state) return { provider };
    const { breaker, keys, setAside, attempts, failures, lastFailure } = state;
    return {
      ...{ provider, configured: true, breaker, keys },
      keysSetAside: setAside.map(({ number, until, reason }) => ({
        number,
        until: timestampFromDate(until),
        reason,
      })),
      attempts,
      failedAttempts: failures,
      ...(lastFailure && {
        lastFailure: lastFailure.kind,
        lastFailureAt: timestampFromDate(lastFailure.at),
      }),
    };
  });
}
