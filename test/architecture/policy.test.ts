import {
  clearExtension,
  clone,
  create,
  type DescMethod,
  getOption,
  hasOption,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import { type MethodOptions, MethodOptionsSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { readBinding } from "../../gateway/transcode/binding.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  Access,
  ApiKeys,
  field as fieldPolicy,
  LimitKey,
  PolicySchema,
  policy,
  TypedText,
} from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { clientMethods, policyOf, services } from "../../services/platform/rpc/policy.ts";
import { violationsOf } from "../../services/platform/rpc/validation.ts";

const methods = services.flatMap((service): DescMethod[] => service.methods);

/** A method with another policy. */
function methodWith(rules: MessageInitShape<typeof PolicySchema> | undefined): DescMethod {
  const { logout } = AuthService.method;
  const options = clone(MethodOptionsSchema, logout.proto.options as MethodOptions);
  clearExtension(options, policy);
  if (rules) setExtension(options, policy, create(PolicySchema, rules));
  return { ...logout, proto: { ...logout.proto, options } };
}

test.each([
  ["no policy at all", undefined],
  ["a policy without access", { successStatus: 201 }],
])("Method policy: the start fails for a method with %s", (_what, rules) => {
  expect(() => readBinding(methodWith(rules))).toThrow("AuthService/Logout");
});

test("Method policy: every method declares its access, and has a limit unless it serves keys", () => {
  const unlimited = methods.filter((method) => policyOf(method)?.limits.length === 0);
  expect(unlimited.map(({ name }) => name)).toEqual(["ListKeys", "FindApiKey"]);
});

test("Method policy: every limit is complete, and a limit per account names the account field", () => {
  for (const method of methods) {
    const { lockout, limits = [], account } = policyOf(method) ?? {};
    for (const { bucket, requests, windowSeconds, by } of limits) {
      expect([bucket, requests, windowSeconds, by].every(Boolean), method.name).toBe(true);
    }
    const countsAccounts = lockout || limits.some(({ by }) => by === LimitKey.ADDRESS_AND_ACCOUNT);
    if (countsAccounts) expect(account, method.name).toBeDefined();
  }
});

test("Method policy: every administrator method is forbidden during impersonation", () => {
  const open = methods.filter((method) => {
    const rules = policyOf(method);
    return rules?.access === Access.ADMIN && !rules.forbidImpersonation;
  });
  expect(open.map(({ name }) => name)).toEqual([]);
});

test("Method policy: an impersonator can only read, call models and log out", () => {
  const open = methods.filter((method) => {
    const rules = policyOf(method);
    return rules?.access === Access.USER && !rules.forbidImpersonation;
  });
  const reads = [
    ...["GetModel", "GetProfile", "ListApiKeys", "ListModels", "ListOwnBudgets", "ListProviders"],
  ];
  const others = ["CreateEmbeddings", "RelayMessages", "CountMessageTokens", "RelayResponses"];
  const names = [
    ...["Chat", "Complete", "Logout", "StreamChat", "ListSessions", "ListUsage"],
    ...[...reads, ...others],
  ];
  expect(open.map(({ name }) => name).sort()).toEqual(names.sort());
});

test("Method policy: API keys call models, list them and show usage, and allow nothing else", () => {
  const open = methods.filter((method) => policyOf(method)?.apiKeys !== ApiKeys.UNSPECIFIED);
  const calls = [
    ...["Chat", "Complete", "CreateEmbeddings", "StreamChat"],
    ...["RelayMessages", "CountMessageTokens", "RelayResponses"],
  ];
  const names = [...calls, "GetModel", "ListModels", "ListProviders", "ListUsage"];
  expect(open.map(({ name }) => name).sort()).toEqual(names.sort());
  for (const method of open) expect(policyOf(method)?.access, method.name).toBe(Access.USER);
});

test("Method policy: one method is for gateways, and has no route", () => {
  const gateways = methods.filter((method) => policyOf(method)?.access === Access.GATEWAY);
  expect(gateways.map(({ name }) => name)).toEqual(["FindApiKey"]);
  expect(gateways.filter((method) => hasOption(method, http))).toEqual([]);
});

test("Field policy: every secret that people type or paste is normalized", () => {
  const unnormalized = clientMethods().flatMap(({ input }) =>
    input.fields.filter((field) => {
      const { typed, cookie } = getOption(field, fieldPolicy);
      const isSecret = field.proto.options?.debugRedact === true;
      return isSecret && !cookie && typed === TypedText.UNSPECIFIED;
    }),
  );
  const names = unnormalized.map(({ parent, name }) => `${parent.name}.${name}`);
  expect(names).toEqual([
    "FinishExternalRequest.code",
    "FinishExternalRequest.state",
    "FinishExternalRequest.user",
  ]); // of a redirect
});

test("Validation: the rules of every request message compile", () => {
  for (const { input } of methods) violationsOf(input, create(input)); // throws if not
});
