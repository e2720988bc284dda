import { once } from "node:events";
import http2 from "node:http2";
import net from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { openRoom } from "../../../services/process/room.ts";
import { startApp, testApp } from "../../support/app.ts";
import { framed, send } from "../../support/raw-grpc.ts";
import { times } from "../../support/until.ts";

const app = await testApp();
const PROFILE = { ":method": "POST", ":path": "/gatehouse.account.v1.UserService/GetProfile" };
const NOBODY = { ...PROFILE, "content-type": "application/grpc" };
const NOTHING = framed(new Uint8Array());

describe("the gRPC door, flooded over one connection,", () => {
  let flood: http2.ClientHttp2Session;
  let other: http2.ClientHttp2Session;
  beforeEach(async () => {
    [flood, other] = [http2.connect(app.grpcUrl), http2.connect(app.grpcUrl)];
    await Promise.all([flood, other].map((session) => send(session, NOBODY, NOTHING)));
    return () => [flood, other].map((session) => session.destroy());
  });

  const begin = () => flood.request(NOBODY).on("error", () => {});
  const callsSince = (logged: number) => app.logs.slice(logged).filter((line) => line.includes("/GetProfile"));

  test("answers another one meanwhile", async () => {
    const logged = app.logs.length;
    const all = times(200, () => send(flood, NOBODY, NOTHING));
    await send(other, NOBODY, NOTHING);
    expect(callsSince(logged).length).toBeLessThan(100);
    await Promise.all(all);
  });

  test("does nothing for calls that are taken back at once", async () => {
    const logged = app.logs.length;
    for (const stream of times(400, begin)) stream.close(http2.constants.NGHTTP2_CANCEL);
    await send(flood, NOBODY, NOTHING);
    expect(callsSince(logged).length).toBeLessThan(40);
  });

  test("does nothing for calls whose client goes before the body is there", async () => {
    const logged = app.logs.length;
    for (const stream of times(50, begin)) stream.write(NOTHING.subarray(1));
    await send(flood, NOBODY, NOTHING);
    flood.destroy();
    for (let i = 0; i < 3; i++) await send(other, NOBODY, NOTHING);
    expect(callsSince(logged)).toHaveLength(4);
  });
});

test("health can be asked for, and everything else, however many watch it", async () => {
  const own = await startApp({ room: openRoom(1_000_000) });
  const watching = http2.connect(own.grpcUrl);
  const watch = () =>
    watching
      .request({ ...NOBODY, ":path": "/grpc.health.v1.Health/Watch" })
      .on("error", () => {})
      .end(NOTHING);
  const watches = times(30, watch);
  await Promise.race(watches.map((stream) => new Promise((resolve) => stream.once("close", resolve)))); // refused
  expect((await send(watching, { ...NOBODY, ":path": "/grpc.health.v1.Health/Check" }, NOTHING)).status).toBe(200);
  expect((await own.signIn()).accessToken).toBeDefined();
  watching.destroy();
  await own.close();
});

test("connections have a bound: whoever comes takes the place of the one that has been without a call the longest", async () => {
  const own = await startApp({ room: { ...openRoom(), connections: 3 } });
  const busy = http2.connect(own.grpcUrl);
  const watch = busy.request({ ...NOBODY, ":path": "/grpc.health.v1.Health/Watch" }).resume();
  watch.on("error", () => {}).end(NOTHING);
  await once(watch, "response");
  const silent = net.connect(Number(new URL(own.grpcUrl).port), "127.0.0.1");
  await once(silent, "connect");
  const check = { ...NOBODY, ":path": "/grpc.health.v1.Health/Check" };
  const idle = http2.connect(own.grpcUrl);
  await send(idle, check, NOTHING);
  const others = times(2, () => http2.connect(own.grpcUrl));
  const areCut = [once(silent.resume(), "close"), once(idle, "close")];
  for (const other of others) expect((await send(other, check, NOTHING)).status).toBe(200);
  await Promise.all(areCut);
  expect(busy.closed).toBe(false);
  for (const session of [busy, ...others]) session.destroy();
  await own.close();
});
