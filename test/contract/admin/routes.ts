// Every RPC of clients with its route.

import { getOption } from "@bufbuild/protobuf";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import { clientMethods, policyOf } from "../../../services/platform/rpc/policy.ts";

/** Every RPC of clients with its route and who may call it. */
export const routes = clientMethods().map((method) => {
  const { pattern } = getOption(method, http);
  const { name, localName, parent: service } = method;
  const [verb, path] = [String(pattern.case).toUpperCase(), String(pattern.value)];
  return { service, name, localName, verb, path, access: policyOf(method)?.access };
});
