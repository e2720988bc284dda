import { create, createFileRegistry, type MessageInitShape, setExtension } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, MethodOptionsSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { Access, LimitKey, Lockout, PolicySchema, policy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { loadPolicies, policyOf, services } from "../../services/platform/policy.ts";
import { violationsOf } from "../../services/platform/validation.ts";

/** A service of one method with this policy, made for the test. */
function serviceWith(rules: MessageInitShape<typeof PolicySchema> | undefined) {
  const options = create(MethodOptionsSchema);
  if (rules) setExtension(options, policy, create(PolicySchema, rules));
  const file = create(FileDescriptorProtoSchema, {
    name: "test.proto",
    package: "test",
    syntax: "proto3",
    messageType: [{ name: "Note" }],
    service: [
      { name: "Notes", method: [{ name: "Write", inputType: ".test.Note", outputType: ".test.Note", options }] },
    ],
  });
  const service = createFileRegistry(file, () => undefined).getService("test.Notes");
  if (!service) throw new Error("the service is missing");
  return service;
}

const access = Access.PUBLIC;
const limit = { bucket: "notes", requests: 1, windowSeconds: 1, by: LimitKey.ADDRESS };

test.each([
  ["no policy at all", undefined, /does not say who may call it/],
  ["a policy without access", { successStatus: 201 }, /does not say who may call it/],
  ["a limit without a window", { access, limits: [{ ...limit, windowSeconds: 0 }] }, /limit that lacks/],
  ["a limit without a key", { access, limits: [{ ...limit, by: LimitKey.UNSPECIFIED }] }, /limit that lacks/],
  ["a lockout without an account", { access, lockout: Lockout.PASSWORD }, /no field of its request names one/],
])("Method policy: the start is refused for a method with %s", (_what, rules, message) => {
  expect(() => loadPolicies([serviceWith(rules)])).toThrow(message);
});

test("Method policy: every method states its access, and is limited unless it serves keys", () => {
  loadPolicies(services);
  const unlimited = services
    .flatMap(({ methods }) => methods)
    .filter((method) => policyOf(method)?.limits.length === 0);
  expect(unlimited.map(({ name }) => name)).toEqual(["ListKeys"]);
});

test("Method policy: every administrator method is forbidden during impersonation", () => {
  const methods = services.flatMap((service) => service.methods);
  const open = methods.filter((method) => {
    const rules = policyOf(method)?.policy;
    return rules?.access === Access.ADMIN && !rules.forbidImpersonation;
  });
  expect(open.map(({ name }) => name)).toEqual([]);
});

test("Validation: the rules of every method's request can be compiled", () => {
  for (const { input } of services.flatMap(({ methods }) => methods)) violationsOf(input, create(input)); // throws if not
});
