import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { FailureSchema, Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import { services } from "../../../services/platform/rpc/policy.ts";
import { freshEmail, WRONG_PASSWORD } from "../../support/accounts.ts";
import { conversationOf } from "../../support/ai/calls.ts";
import { testApp } from "../../support/app.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const app = await testApp();

/**
 * Runs buf curl.
 * @returns the messages that it prints; the error of a failed call
 */
async function bufCurl(rpc: string, message: unknown, ...options: string[]) {
  const args = [
    "curl",
    "--http2-prior-knowledge",
    ...options,
    "-d",
    JSON.stringify(message),
    `${app.grpcUrl}/${rpc}`,
  ];
  const { stdout, stderr } = await promisify(execFile)("buf", args).catch((error) => error);
  if (!stdout) return JSON.parse(stderr);
  return stdout.split(/\n(?=\{)/).map((text: string) => JSON.parse(text));
}

const REFLECTION = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const SCHEMAS = [["with reflection"], ["with the schema", "--schema", "."]];
describe.each(["grpc", "grpcweb", "connect"])("buf curl over %s", (protocol) => {
  test.each(SCHEMAS)("signs in, reads the profile and chats, %s", async (_how, ...schema) => {
    const options = ["--protocol", protocol, ...schema];
    const user = await app.addVerifiedUser();
    const [login] = await bufCurl(
      "gatehouse.account.v1.AuthService/Login",
      user.credentials,
      ...options,
    );
    expect(login).toMatchObject({ user: { email: user.email } });
    const bearer = ["-H", `Authorization: Bearer ${login.accessToken}`];
    const [profile] = await bufCurl(
      "gatehouse.account.v1.UserService/GetProfile",
      {},
      ...options,
      ...bearer,
    );
    expect(profile.user).toMatchObject({ id: user.id, emailVerified: true });
    const question = conversationOf("case: plain");
    const [reply] = await bufCurl(
      "gatehouse.ai.v1.AIService/Chat",
      question,
      ...options,
      ...bearer,
    );
    const pieces = await bufCurl(
      "gatehouse.ai.v1.AIService/StreamChat",
      question,
      ...options,
      ...bearer,
    );
    expect(pieces.map((piece: { chunk: string }) => piece.chunk).join("")).toBe(reply.content);
    expect(reply.content.length).toBeGreaterThan(10);
  });
});

test("gRPC: applies the same validation as REST", async () => {
  const auth = app.grpc(AuthService);
  const failureOf = async (call: Promise<unknown>) => {
    const error = await errorOf(call);
    const { reason, violations = [] } = error.findDetails(FailureSchema)[0] ?? {};
    return { code: error.code, reason, fields: new Set(violations.map(({ field }) => field)) };
  };
  const invalid = { code: Code.InvalidArgument, reason: Reason.VALIDATION_FAILED };
  const fields = new Set(["email", "password", "name", "acceptTerms"]);
  expect(await failureOf(auth.register({ email: "not-an-address", password: "x" }))).toEqual({
    ...invalid,
    fields,
  });
  expect(await failureOf(auth.verifyEmail({ token: "a\0b" }))).toEqual({
    ...invalid,
    fields: new Set(["token"]),
  });
});

test("gRPC: ignores client addresses without the internal secret", async () => {
  const auth = app.grpc(AuthService);
  const wrong = { email: freshEmail(), password: WRONG_PASSWORD };
  for (const remaining of ["4", "3", "2", "1"]) {
    const headers = {
      "x-gatehouse-client-address": `198.18.9.${remaining}`,
      "x-gatehouse-secret": "a-guess",
    };
    const { metadata } = await errorOf(auth.login(wrong, { headers }));
    expect(metadata.get("ratelimit-remaining")).toBe(remaining); // one client, whose limit is used up
  }
  expect(await app.sql("select 1 from audit_events where ip like '198.18.9.%'")).toEqual([]);
});

test("gRPC: trusts internal callers, who write the address of their client in any form", async () => {
  const secret = { "x-gatehouse-secret": String(app.settings.INTERNAL_SECRET) };
  for (const [given, ip] of [
    ["::ffff:10.9.8.7", "10.9.8.7"] as const,
    ["2001:DB8::1", "2001:db8::1"] as const,
  ]) {
    const { credentials, id } = await app.addUser();
    await app
      .grpc(AuthService)
      .login(credentials, { headers: { ...secret, "x-gatehouse-client-address": given } });
    expect(await app.sql("select ip from sessions where user_id = ?", [id])).toEqual([{ ip }]);
  }
});

test("gRPC: grpc-js reads responses and status details", async () => {
  const { input, output } = AuthService.method.register;
  const client = new grpc.Client(new URL(app.grpcUrl).host, grpc.credentials.createInsecure());
  const given = create(input, { email: "ö", password: "Secret-1!", name: "%41\u0007" });
  const write = (value: typeof given) => Buffer.from(toBinary(input, value));
  const read = (bytes: Buffer) => fromBinary(output, bytes);
  const error = await new Promise<grpc.ServiceError>((resolve, reject) =>
    client.makeUnaryRequest(`/${AuthService.typeName}/Register`, write, read, given, (failure) =>
      failure ? resolve(failure) : reject(new Error("it succeeded")),
    ),
  );
  client.close();
  expect(error.code).toBe(grpc.status.INVALID_ARGUMENT);
  expect(decodeURIComponent(error.details)).toBe(
    "Invalid request: email must be a valid e-mail address; name must be 1 to 100 characters, without control characters; " +
      "acceptTerms must be true: the terms have to be accepted.",
  );
  expect(error.metadata.get("grpc-status-details-bin")).toHaveLength(1);
});

test("gRPC reflection: finds the extensions of method options, and their file", async () => {
  const messageRequest = { allExtensionNumbersOfType: "google.protobuf.MethodOptions" };
  const ask = async (query: object) =>
    (await bufCurl(REFLECTION, query, "--protocol", "grpc", "--schema", "."))[0];
  const { allExtensionNumbersResponse: found } = await ask(messageRequest);
  expect(found.extensionNumber.length).toBeGreaterThan(1); // the policy and the route of a method
  const [extensionNumber] = found.extensionNumber;
  const fileContainingExtension = { containingType: found.baseTypeName, extensionNumber };
  const { fileDescriptorResponse } = await ask({ fileContainingExtension });
  expect(fileDescriptorResponse.fileDescriptorProto.length).toBeGreaterThan(1);
});

test("gRPC health: reports the service and its dependencies", async () => {
  const check = (service: string) =>
    bufCurl("grpc.health.v1.Health/Check", { service }, "--protocol", "grpc");
  const dependencies = ["database", "cache", "mail", "clock"];
  for (const service of ["", AuthService.typeName, ...dependencies])
    expect(await check(service)).toEqual([{ status: "SERVING" }]);
  const [{ statuses }] = await bufCurl("grpc.health.v1.Health/List", {}, "--protocol", "grpc");
  const parts = ["", ...services.map(({ typeName }) => typeName), ...dependencies];
  expect(statuses).toEqual(Object.fromEntries(parts.map((part) => [part, { status: "SERVING" }])));
  for (const service of ["nothing", "gatehouse.no.such.Service", "constructor"])
    expect(await check(service)).toMatchObject({ code: "not_found" });
});
