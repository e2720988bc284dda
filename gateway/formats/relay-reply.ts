import type { Message } from "@bufbuild/protobuf";
import type { RelayEvent, Started } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import type { FormattedReply } from "./format.ts";
import { repliedBy } from "./replied-by.ts";

/** Creates the writer of a reply that is passed on unchanged. */
export function createRelayReply(): FormattedReply {
  let started: Started | undefined;
  let isFinished = false;
  const dataOf = (message: Message): string => {
    const { event } = message as RelayEvent;
    if (event.case === "started") started = event.value;
    if (event.case === "finished") isFinished = true;
    return event.case === "data" ? event.value : "";
  };
  return {
    headers: () => (started ? repliedBy(started) : {}),
    isFinished: () => isFinished,
    event: dataOf,
    whole() {
      let text = "";
      return {
        add(message) {
          text += dataOf(message);
        },
        text: () => text,
      };
    },
  };
}
