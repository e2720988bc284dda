import { type DescField, type DescMethod, type DescService, getOption, hasOption } from "@bufbuild/protobuf";
import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  Access,
  AccessSchema,
  AccountKey,
  AuditTarget,
  default_limit,
  field as fieldOption,
  type Limit,
  LimitKey,
  type Policy,
  policy as policyOption,
} from "../../gen/gatehouse/platform/v1/policy_pb.ts";

/** The services of the product. */
export const services = [AuthService, UserService, AdminService, AIService] as const;

/** Largest body of a method whose policy names no other bound, in bytes (interface section 1). */
export const DEFAULT_BODY_BYTES = 16 * 1024;

/** Largest request body of a method, in bytes. */
export const maxBodyBytes = (policy: Policy): number => policy.maxBodyBytes || DEFAULT_BODY_BYTES;

/** The policy of one method, read once from its descriptor. */
export type MethodPolicy = {
  policy: Policy;
  /** The method's own rate limits, or the default of its access. */
  limits: Limit[];
  /** The request field with the account that a rate limit or lockout counts for. */
  account: { field: DescField; key: AccountKey } | undefined;
  /** The request field with the target that the audit log records. */
  target: { field: DescField; kind: AuditTarget } | undefined;
};

const policies = new WeakMap<DescMethod, MethodPolicy>();

/** Reads the policies of all methods at start. @throws Error naming a method whose policy is incomplete */
export function loadPolicies(services: readonly DescService[]): void {
  for (const service of services) for (const method of service.methods) policies.set(method, read(method));
}

/** The policy of a method; undefined for methods that are not ours, such as health and reflection. */
export function policyOf(method: DescMethod): MethodPolicy | undefined {
  const known = policies.get(method);
  if (known) return known;
  if (!method.parent.typeName.startsWith("gatehouse.")) return undefined;
  const policy = read(method);
  policies.set(method, policy);
  return policy;
}

/** The rate limits of a policy: its own, or the default of its access. */
export function limitsOf({ limits, access }: Policy): Limit[] {
  const value = AccessSchema.value[access];
  return limits.length === 0 && value && hasOption(value, default_limit) ? [getOption(value, default_limit)] : limits;
}

function read(method: DescMethod): MethodPolicy {
  const name = `${method.parent.typeName}/${method.name}`;
  const policy = getOption(method, policyOption);
  if (!hasOption(method, policyOption) || policy.access === Access.UNSPECIFIED) {
    throw new Error(`${name} does not say who may call it`);
  }
  const limits = limitsOf(policy);
  for (const limit of limits) {
    if (!limit.bucket || !limit.requests || !limit.windowSeconds || limit.by === LimitKey.UNSPECIFIED) {
      throw new Error(`${name} has a limit that lacks bucket, requests, window or key`);
    }
  }
  const field = method.input.fields.find((f) => getOption(f, fieldOption).account !== AccountKey.UNSPECIFIED);
  if (!field && (policy.lockout || limits.some((limit) => limit.by === LimitKey.ADDRESS_AND_ACCOUNT))) {
    throw new Error(`${name} counts per account, but no field of its request names one`);
  }
  const target = method.input.fields.find((f) => getOption(f, fieldOption).auditTarget !== AuditTarget.UNSPECIFIED);
  return {
    policy,
    limits,
    account: field && { field, key: getOption(field, fieldOption).account },
    target: target && { field: target, kind: getOption(target, fieldOption).auditTarget },
  };
}
