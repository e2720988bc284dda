import { execFile } from "node:child_process";
import http2 from "node:http2";
import { promisify } from "node:util";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-node";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, describe, expect, test } from "vitest";
import {
  AuthService,
  LoginRequestSchema,
} from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { freshEmail, WRONG_PASSWORD } from "../../support/accounts.ts";
import { startSuiteApp } from "../../support/app.ts";
import { answerTo, failureOf, framed, LOGIN, send } from "../../support/grpc.ts";
import { errorOf } from "../../support/http/stub-services.ts";

const ORIGIN = "https://app.example.com";
const app = await startSuiteApp({ mode: "embedded", env: { CORS_ORIGINS: ORIGIN } });
const session = http2.connect(app.grpcUrl);
afterAll(() => session.close());

describe("gRPC reflection", () => {
  const versions = ["v1", "v1alpha"] as const;

  test.each(versions)(
    "%s lists the services and describes a method for grpc-js",
    async (version) => {
      const proto = `grpc/reflection/${version}/reflection.proto`;
      const loaded = loadSync(proto, {
        includeDirs: ["proto/third_party"],
      });
      const service = loaded[
        `grpc.reflection.${version}.ServerReflection`
      ] as grpc.ServiceDefinition;
      const { path, requestSerialize, responseDeserialize } =
        service.ServerReflectionInfo as grpc.MethodDefinition<object, object>;
      const client = new grpc.Client(new URL(app.grpcUrl).host, grpc.credentials.createInsecure());
      const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
      stream.write({ listServices: "" });
      stream.write({ fileContainingSymbol: "gatehouse.account.v1.AuthService.Login" });
      stream.end();
      const [list, files] = await stream.toArray();
      client.close();
      expect(list?.listServicesResponse?.service).toContainEqual({ name: AuthService.typeName });
      expect(files?.fileDescriptorResponse?.fileDescriptorProto?.length).toBeGreaterThan(1);
    },
  );

  test("v1alpha works for buf curl", async () => {
    const args = ["curl", "--http2-prior-knowledge", "--protocol", "grpc"];
    const { stdout } = await promisify(execFile)("buf", [
      ...args,
      "--reflect-protocol",
      "grpc-v1alpha",
      "--list-services",
      app.grpcUrl,
    ]);
    expect(stdout).toContain(AuthService.typeName);
  });
});

/** A login with a wrong password, of another address each time. */
const wrongLogin = () => ({ email: freshEmail(), password: WRONG_PASSWORD });
const binary = () => toBinary(LoginRequestSchema, create(LoginRequestSchema, wrongLogin()));
const text = () => Buffer.from(JSON.stringify(wrongLogin()));

/** Paths that name no method. */
const PATHS = [
  "/AWS.ALB/healthcheck",
  "/gatehouse.account.v1.AuthService/Nothing",
  "/gatehouse.account.v2.AuthService/Login",
  "/grpc.reflection.v1beta.ServerReflection/ServerReflectionInfo",
  "/grpc.channelz.v1.Channelz/GetServers",
  "/",
];

describe.each(PATHS)("gRPC: a request to the unknown path %s", (path) => {
  const types = [
    { type: "application/grpc", status: 200 },
    { type: "application/grpc+proto", status: 200 },
    { type: "application/grpc+json", status: 200 },
    { type: "application/grpc; charset=utf-8", status: 200 },
    { type: "application/grpc-web", status: 200 },
    { type: "application/grpc-web+proto", status: 200 },
    { type: "application/connect+proto", status: 200 },
    { type: "application/connect+json", status: 200 },
    { type: "application/json", status: 501 },
    { type: "application/proto", status: 501 },
  ];
  test.each(types)("as $type is UNIMPLEMENTED with HTTP $status", async ({ type, status }) => {
    for (const body of [new Uint8Array(), framed(Buffer.alloc(100_000))]) {
      const headers = { ":path": path, "content-type": type, te: "trailers" };
      const answer = await send(session, headers, body);
      expect([answer.status, failureOf(answer).code]).toEqual([status, Code.Unimplemented]);
      expect(answer.head["x-request-id"]).toBeDefined();
      if (/grpc(?!-web)/.test(type)) expect(answer.trailers["grpc-status"]).toBe("12");
    }
  });

  test("is 404 if it is not a call", async () => {
    const read = await answerTo(session.request({ ":path": path }));
    const written = await send(session, { ":path": path, "content-type": "text/plain" }, text());
    expect([read.status, written.status]).toEqual([404, 404]);
  });
});

test("gRPC: an unknown method is UNIMPLEMENTED for grpc-js", async () => {
  const client = new grpc.Client(new URL(app.grpcUrl).host, grpc.credentials.createInsecure());
  const bytes = (value: Buffer) => value;
  const error = await new Promise<grpc.ServiceError | null>((resolve) =>
    client.makeUnaryRequest("/a.B/C", bytes, bytes, Buffer.alloc(0), resolve),
  );
  client.close();
  expect(error?.code).toBe(grpc.status.UNIMPLEMENTED);
});

describe("gRPC: content types with parameters", () => {
  const accepted = [
    { type: "application/grpc+proto; charset=utf-8", body: framed(binary()) },
    { type: "application/grpc;charset=UTF-8", body: framed(binary()) },
    { type: 'application/grpc ; x="1" ; charset="utf-8"', body: framed(binary()) },
    { type: "application/grpc-web+proto; charset=utf-8", body: framed(binary()) },
    { type: "application/grpc-web+json;charset=utf8", body: framed(text()) },
    { type: "application/proto; messageType=x", body: binary() },
    { type: "application/json; charset=utf-8; profile=x", body: text() },
    { type: "application/json;", body: text() },
    { type: "Application/gRPC+Proto", body: framed(binary()) },
    { type: "application/JSON", body: text() },
  ];
  test.each(accepted)("$type is accepted", async ({ type, body }) => {
    const answer = await send(session, { ":path": LOGIN, "content-type": type }, body);
    expect(failureOf(answer).code).toBe(Code.Unauthenticated); // wrong password
  });

  const refused = ["application/json; charset=latin1", "application/grpc-web-text", "text/plain"];
  test.each(refused)("%s is 415", async (type) => {
    const answer = await send(session, { ":path": LOGIN, "content-type": type }, text());
    expect(answer.status).toBe(415);
  });
});

describe("gRPC: CORS", () => {
  const ask = {
    ":method": "OPTIONS",
    ":path": LOGIN,
    origin: ORIGIN,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-grpc-web",
  };

  test("an allowed origin gets a preflight response", async () => {
    for (const path of [LOGIN, "/nowhere"]) {
      const { status, head } = await send(session, { ...ask, ":path": path }, new Uint8Array());
      expect(status).toBe(204);
      expect(head).toMatchObject({
        "access-control-allow-origin": ORIGIN,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": expect.stringContaining("POST"),
        "access-control-allow-headers": ask["access-control-request-headers"],
        "access-control-max-age": "600",
        vary: "origin",
      });
    }
  });

  test.each(["https://evil.example.com", "null", `${ORIGIN}.evil.com`])(
    "another origin gets none, and cannot read responses: %s",
    async (origin) => {
      const preflight = await send(session, { ...ask, origin }, new Uint8Array());
      expect(preflight.status).not.toBe(204);
      const call = { ":path": LOGIN, "content-type": "application/json", origin };
      for (const { head } of [preflight, await send(session, call, text())]) {
        expect(head["access-control-allow-origin"]).toBeUndefined();
        expect(head.vary).toBe("origin");
      }
    },
  );

  const types = [
    { type: "application/grpc-web+proto", body: framed(binary()) },
    { type: "application/connect+json", body: framed(text()) },
    { type: "application/json", body: text() },
    { type: "application/proto", body: binary() },
  ];
  test.each(types)("an allowed origin may read a response of $type", async ({ type, body }) => {
    for (const path of [LOGIN, "/a.B/C"]) {
      const headers = { ":path": path, "content-type": type, origin: ORIGIN };
      const { head } = await send(session, headers, body);
      expect(head["access-control-allow-origin"]).toBe(ORIGIN);
      for (const name of ["grpc-status", "grpc-message", "grpc-status-details-bin", "retry-after"])
        expect(String(head["access-control-expose-headers"]).toLowerCase()).toContain(name);
    }
  });

  test("a gRPC-Web client with an origin signs in, and reads errors", async () => {
    const { credentials } = await app.addUser();
    const baseUrl = app.grpcUrl;
    const transport = createGrpcWebTransport({ baseUrl, httpVersion: "2" });
    const client = createClient(AuthService, transport);
    let allowed: string | null = null;
    const onHeader = (headers: Headers) => {
      allowed = headers.get("access-control-allow-origin");
    };
    const headers = { origin: ORIGIN };
    expect((await client.login(credentials, { headers, onHeader })).accessToken).not.toBe("");
    expect(allowed).toBe(ORIGIN);
    const error = await errorOf(client.login(wrongLogin(), { headers }));
    expect([error.code, error.metadata.get("access-control-allow-origin")]).toEqual([
      Code.Unauthenticated,
      ORIGIN,
    ]);
  });
});

describe("gRPC: responses that a browser may receive", () => {
  const security = {
    "cache-control": "no-store",
    "content-security-policy": expect.stringContaining("default-src 'none'"),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  };
  const answers = [
    { what: "a response of Connect", path: LOGIN, type: "application/json" },
    { what: "a response of gRPC-Web", path: LOGIN, type: "application/grpc-web+proto" },
    { what: "an unknown method", path: "/a.B/C", type: "application/json" },
    { what: "a path that is no call", path: "/", type: "text/plain" },
    { what: "an unsupported type", path: LOGIN, type: "text/plain" },
  ];
  test.each(answers)("$what may be neither stored nor sniffed", async ({ path, type }) => {
    const { head } = await send(session, { ":path": path, "content-type": type }, text());
    expect(head).toMatchObject(security);
  });

  test("responses of gRPC itself have no browser headers", async () => {
    const call = { ":path": LOGIN, "content-type": "application/grpc", te: "trailers" };
    const { head } = await send(session, call, framed(binary()));
    expect(Object.keys(security).filter((name) => name in head)).toEqual([]);
  });
});
