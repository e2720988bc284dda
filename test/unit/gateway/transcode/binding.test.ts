import { create, createFileRegistry, setExtension } from "@bufbuild/protobuf";
import type { FieldDescriptorProto } from "@bufbuild/protobuf/wkt";
import {
  FieldDescriptorProtoSchema,
  FieldOptionsSchema,
  FileDescriptorProtoSchema,
  file_google_protobuf_struct,
  FieldDescriptorProto_Label as Label,
  MethodOptionsSchema,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { describe, expect, test } from "vitest";
import { readBinding } from "../../../../gateway/transcode/binding.ts";
import {
  Access,
  CookieClearing,
  field as fieldPolicy,
  PolicySchema,
  policy,
} from "../../../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../../../gen/google/api/annotations_pb.ts";
import { HttpRuleSchema } from "../../../../gen/google/api/http_pb.ts";

const NOTE = ".test.Note";
type Field = Partial<FieldDescriptorProto> & { cookie?: string };
type Facts = {
  rule?: Parameters<typeof create<typeof HttpRuleSchema>>[1] | null;
  policy?: Parameters<typeof create<typeof PolicySchema>>[1] | null;
  request?: Field[];
  response?: Field[];
  streams?: "client" | "server";
};

const fieldOf = ({ cookie, ...facts }: Field, index: number) => {
  const field = create(FieldDescriptorProtoSchema, {
    name: "name",
    jsonName: (facts.name ?? "name").replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), // as buf does
    number: index + 1,
    type: Type.STRING,
    label: Label.OPTIONAL,
    ...facts,
  } as never);
  if (cookie !== undefined) {
    field.options = create(FieldOptionsSchema);
    setExtension(field.options, fieldPolicy, {
      $typeName: "gatehouse.platform.v1.FieldPolicy",
      cookie,
      account: 0,
      auditTarget: 0,
    });
  }
  return field;
};

/** A method for a test, by default a valid one. */
function methodWith({ rule = {}, policy: rules = {}, request = [], response = [], streams }: Facts) {
  const options = create(MethodOptionsSchema);
  const base = { pattern: { case: "post" as const, value: "/notes" }, body: "*" };
  if (rule) setExtension(options, http, create(HttpRuleSchema, { ...base, ...rule }));
  if (rules) setExtension(options, policy, create(PolicySchema, { access: Access.USER, ...rules }));
  const file = create(FileDescriptorProtoSchema, {
    name: "test.proto",
    package: "test",
    syntax: "proto3",
    dependency: [file_google_protobuf_struct.proto.name],
    messageType: [
      {
        name: "Request",
        field: request.map(fieldOf),
        oneofDecl: [{ name: "choice" }].filter(() => request.some((f) => "oneofIndex" in f)),
      },
      { name: "Response", field: response.map(fieldOf) },
      { name: "Note", field: [fieldOf({ name: "size", type: Type.INT64 }, 0)] },
    ],
    enumType: [{ name: "Kind", value: [{ name: "KIND_UNSPECIFIED", number: 0 }] }],
    service: [
      {
        name: "Notes",
        method: [
          {
            name: "Write",
            inputType: ".test.Request",
            outputType: ".test.Response",
            options,
            clientStreaming: streams === "client",
            serverStreaming: streams === "server",
          },
        ],
      },
    ],
  });
  const registry = createFileRegistry(file, () => file_google_protobuf_struct);
  const method = registry.getService("test.Notes")?.methods[0];
  if (!method) throw new Error("the method is missing");
  return method;
}

test("Binding: a method has the path, fields, status and limit of its options", () => {
  const request = [{ name: "note_id" }, { name: "text" }, { name: "token", cookie: "session" }];
  const rule = { pattern: { case: "put" as const, value: "/notes/{note_id}/text" } };
  const method = methodWith({ rule, request, policy: { successStatus: 202, maxBodyBytes: 99 } });
  const read = readBinding(method);
  expect(read).toMatchObject({ httpMethod: "PUT", path: "/notes/:noteId/text", successStatus: 202, maxBodyBytes: 99 });
  expect(read.pathFields.map((f) => f.name)).toEqual(["note_id"]);
  expect(read.bodyFields?.map((f) => f.name)).toEqual(["text"]);
  expect(read.requestCookies.map((c) => c.cookie)).toEqual(["session"]);
  expect(read.csrfProtected).toBe(false);
  expect(readBinding(methodWith({ request, policy: { access: Access.PUBLIC } })).csrfProtected).toBe(true);
});

describe("Binding: the start is refused for a method", () => {
  const path = (value: string, kind: "post" | "get" | "delete" = "post") => ({ pattern: { case: kind, value } });

  test.each<[string, Facts, RegExp]>([
    ["without an HTTP rule", { rule: null }, /no google\.api\.http rule/],
    ["without a policy", { policy: null }, /no access rule/],
    ["without an access rule", { policy: { access: Access.UNSPECIFIED } }, /no access rule/],
    ["that streams requests", { streams: "client" }, /client_streaming methods are not supported/],
    ["with a patch", { rule: { pattern: { case: "patch", value: "/notes" } } }, /of kind patch/],
    [
      "with a custom verb",
      { rule: { pattern: { case: "custom", value: { kind: "HEAD", path: "/notes" } } } },
      /of kind custom/,
    ],
    ["with no pattern", { rule: { pattern: { case: undefined } } }, /of kind nothing/],
    ["with additional bindings", { rule: { additionalBindings: [path("/more")] } }, /additional_bindings/],
    ["with a selector", { rule: { selector: "x" } }, /selector/],
    ["with a body on one field", { rule: { body: "name" }, request: [{}] }, /body "name"/],
    ["with a body on GET", { rule: path("/notes", "get") }, /a GET can't have a body/],
    ["with a body on DELETE", { rule: path("/notes", "delete") }, /a DELETE can't have a body/],
    ["with a path that is relative", { rule: path("notes") }, /does not start with a slash/],
    ["with a wildcard", { rule: path("/notes/*") }, /segment "\*"/],
    ["with a deep wildcard", { rule: path("/notes/**") }, /segment "\*\*"/],
    ["with a verb suffix", { rule: path("/notes:archive") }, /segment "notes:archive"/],
    ["with a nested path variable", { rule: path("/notes/{note.id}") }, /segment "\{note\.id\}"/],
    ["with a patterned path variable", { rule: path("/{name=notes/*}"), request: [{}] }, /is not supported/],
    ["with a path variable of no field", { rule: path("/notes/{id}") }, /path variable id names no/],
    [
      "with a path variable that is no string",
      { rule: path("/{name}"), request: [{ type: Type.INT32 }] },
      /not a plain string/,
    ],
    ["with a path variable twice", { rule: path("/{name}/{name}"), request: [{}] }, /appears twice/],
    ["with a response_body of no field", { rule: { responseBody: "notes" } }, /response_body notes names no/],
    ["with a success status of an error", { policy: { successStatus: 404 } }, /success_status 404/],
    ["with max_age_seconds for one caller only", { policy: { maxAgeSeconds: 9 } }, /max_age_seconds/],
    [
      "with max_age_seconds that depends on its request",
      { policy: { access: Access.PUBLIC, maxAgeSeconds: 9 }, request: [{}] },
      /max_age_seconds/,
    ],
    [
      "that clears a cookie it does not name",
      { policy: { clearsCookie: CookieClearing.ON_SUCCESS } },
      /names no cookie/,
    ],
    ["with a cookie of a bad name", { request: [{ cookie: "a b" }] }, /no name for a cookie/],
    ["with a cookie that is no string", { response: [{ cookie: "a", type: Type.BOOL }] }, /cookie field name is not/],
    [
      "that streams with a response_body",
      { streams: "server", rule: { responseBody: "name" }, response: [{}] },
      /event stream/,
    ],
    ["that streams with another status", { streams: "server", policy: { successStatus: 201 } }, /event stream/],
    ["that streams and sets a cookie", { streams: "server", response: [{ cookie: "a" }] }, /event stream/],
    ["that takes bytes", { request: [{ type: Type.BYTES }] }, /field name is of a type/],
    ["that takes a 64-bit number", { request: [{ type: Type.INT64 }] }, /field name is of a type/],
    [
      "that takes one in a nested message",
      { request: [{ type: Type.MESSAGE, typeName: NOTE }] },
      /field size is of a type/,
    ],
    ["that takes an enum", { request: [{ type: Type.ENUM, typeName: ".test.Kind" }] }, /field name is of a type/],
    [
      "that takes a Struct",
      { request: [{ type: Type.MESSAGE, typeName: ".google.protobuf.Struct" }] },
      /field name is of a type/,
    ],
    ["that takes one of several fields", { request: [{ oneofIndex: 0 }] }, /part of a oneof/],
    [
      "that takes a message in a query",
      { rule: { ...path("/notes", "get"), body: "" }, request: [{ type: Type.MESSAGE, typeName: ".test.Response" }] },
      /can't be given in a query/,
    ],
  ])("%s", (_what, facts, message) => {
    const read = () => readBinding(methodWith(facts));
    expect(read).toThrow(message);
    expect(read).toThrow("test.Notes.Write");
  });
});
