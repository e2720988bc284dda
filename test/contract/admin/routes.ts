// Every RPC with its route.

import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import { policyOf, services } from "../../../services/platform/rpc/policy.ts";

/** Every RPC with its route and who may call it. */
export const routes = services
  .flatMap((service): DescMethod[] => service.methods)
  .map((method) => {
    const { pattern } = getOption(method, http);
    const { name, localName, parent: service } = method;
    const [verb, path] = [String(pattern.case).toUpperCase(), String(pattern.value)];
    return { service, name, localName, verb, path, access: policyOf(method)?.access };
  });
