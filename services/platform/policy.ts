import { type DescField, type DescMethod, type DescService, getOption, hasOption } from "@bufbuild/protobuf";
import {
  Access,
  AccessSchema,
  AccountKey,
  default_limit,
  field as fieldOption,
  type Limit,
  LimitKey,
  type Policy,
  policy as policyOption,
} from "../../gen/gatehouse/platform/v1/policy_pb.ts";

/** The rules of one method, read once from its descriptor. */
export type MethodPolicy = {
  policy: Policy;
  /** Its own limits, or its access's default. */
  limits: Limit[];
  /** The request field that names the account a limit or lockout counts for. */
  account: { field: DescField; key: AccountKey } | undefined;
};

const policies = new WeakMap<DescMethod, MethodPolicy>();

/** Reads the rules of every method, so that a service with a gap in them never starts. @throws Error naming the method. */
export function loadPolicies(services: readonly DescService[]): void {
  for (const service of services) for (const method of service.methods) policies.set(method, read(method));
}

/** The rules of a method; undefined for one that is not ours, such as health and reflection. */
export function policyOf(method: DescMethod): MethodPolicy | undefined {
  const known = policies.get(method);
  if (known) return known;
  if (!method.parent.typeName.startsWith("gatehouse.")) return undefined;
  const rules = read(method);
  policies.set(method, rules);
  return rules;
}

function read(method: DescMethod): MethodPolicy {
  const name = `${method.parent.typeName}/${method.name}`;
  const policy = getOption(method, policyOption);
  if (!hasOption(method, policyOption) || policy.access === Access.UNSPECIFIED) {
    throw new Error(`${name} does not say who may call it`);
  }
  const access = AccessSchema.value[policy.access];
  const limits =
    policy.limits.length === 0 && access && hasOption(access, default_limit)
      ? [getOption(access, default_limit)]
      : policy.limits;
  for (const limit of limits) {
    if (!limit.bucket || !limit.requests || !limit.windowSeconds || limit.by === LimitKey.UNSPECIFIED) {
      throw new Error(`${name} has a limit that lacks bucket, requests, window or key`);
    }
  }
  const field = method.input.fields.find((f) => getOption(f, fieldOption).account !== AccountKey.UNSPECIFIED);
  if (!field && (policy.lockout || limits.some((limit) => limit.by === LimitKey.ADDRESS_AND_ACCOUNT))) {
    throw new Error(`${name} counts per account, but no field of its request names one`);
  }
  return { policy, limits, account: field && { field, key: getOption(field, fieldOption).account } };
}
