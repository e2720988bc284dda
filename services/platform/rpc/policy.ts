import { type DescField, type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { AdminService } from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../../gen/gatehouse/ai/v1/ai_service_pb.ts";
import {
  Access,
  AccessSchema,
  AccountKey,
  AuditTarget,
  default_limit,
  field as fieldOption,
  type Policy,
  policy as policyOption,
} from "../../../gen/gatehouse/platform/v1/policy_pb.ts";

/** The gRPC services of the product. */
export const services = [AuthService, UserService, AdminService, AIService] as const;

/** The methods that clients call. All others are for gateways and have no route. */
export const clientMethods = () =>
  services
    .flatMap((service): readonly DescMethod[] => service.methods)
    .filter((method) => policyOf(method)?.access !== Access.GATEWAY);

/** Maximum body size of methods whose policy sets none, in bytes. */
export const DEFAULT_BODY_BYTES = 16 * 1024;

/**
 * The policy of one method, read once from its descriptor, with defaults filled in.
 */
export type MethodPolicy = Policy & {
  /** The request field that names the account for a rate limit or lockout. */
  account: { field: DescField; key: AccountKey } | undefined;
  /** The request field that names the target for the audit log. */
  target: { field: DescField; kind: AuditTarget } | undefined;
};

/**
 * Memoizes a function by its argument. For arguments that live forever, such as descriptors, whose
 * options would be decoded on every read.
 */
export function remembered<K, V>(compute: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) {
      value = compute(key);
      known.set(key, value);
    }
    return value;
  };
}

/**
 * The policy of a method; undefined for the methods of health and reflection.
 * @throws Error if the method declares no access
 */
export const policyOf = remembered((method: DescMethod): MethodPolicy | undefined => {
  if (!method.parent.typeName.startsWith("gatehouse.")) return undefined;
  const policy = getOption(method, policyOption);
  if (policy.access === Access.UNSPECIFIED) {
    throw new Error(`${method.parent.typeName}/${method.name} declares no access`);
  }
  const { fields } = method.input;
  const account = fields.find(
    (field) => getOption(field, fieldOption).account !== AccountKey.UNSPECIFIED,
  );
  const target = fields.find(
    (field) => getOption(field, fieldOption).auditTarget !== AuditTarget.UNSPECIFIED,
  );
  const { access, limits } = policy;
  const value = limits.length === 0 ? AccessSchema.value[access] : undefined;
  return Object.assign(policy, {
    limits: value && hasOption(value, default_limit) ? [getOption(value, default_limit)] : limits,
    maxBodyBytes: policy.maxBodyBytes || DEFAULT_BODY_BYTES,
    successStatus: policy.successStatus || 200,
    account: account && { field: account, key: getOption(account, fieldOption).account },
    target: target && { field: target, kind: getOption(target, fieldOption).auditTarget },
  });
});
