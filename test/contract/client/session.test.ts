import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import type { TokenStore } from "../../../client/src/index.ts";
import { testApp } from "../../support/app.ts";
import { times } from "../../support/tally.ts";
import { browserAt, clientAt, signedInClient } from "./clients.ts";

const app = await testApp();

/** A token store in memory. */
function memory(token?: string): TokenStore & { token: string | undefined } {
  const set = (next: string | undefined) => void Object.assign(store, { token: next });
  const store = { token, set, get: (): string | undefined => store.token };
  return store;
}

test("Client: 20 concurrent calls with an expired access token refresh once and are repeated", async () => {
  const store = memory();
  const { user, client } = await signedInClient(app, { refreshToken: store });
  const [access, refresh] = [client.accessToken, store.token];
  app.clock.advance("16m");
  const profiles = await Promise.all(times(20, () => client.user.getProfile()));
  expect(profiles.every(({ id }) => id === user.id)).toBe(true);
  expect(client.refreshes()).toBe(1);
  expect(client.sent.every(({ credentials }) => credentials === "omit")).toBe(true);
  expect(client.accessToken).not.toBe(access);
  expect(store.token).not.toBe(refresh);
});

test("Client: continues the session of a stored refresh token, and reports whether there is one", async () => {
  const { user, refreshToken } = await app.signIn();
  const client = clientAt(app.url, { refreshToken: memory(refreshToken) });
  expect(await client.resume()).toBe(true);
  expect((await client.user.getProfile()).id).toBe(user.id);
  const store = memory("not a token");
  expect(await clientAt(app.url, { refreshToken: store }).resume()).toBe(false);
  expect(store.token).toBeUndefined();
});

test("Client: a 401 other than UNAUTHENTICATED is not repeated", async () => {
  const client = clientAt(app.url);
  const user = await app.addUser();
  const wrong = client.auth.login({ ...user.credentials, password: "Wrong-horse-1" });
  await expect(wrong).rejects.toMatchObject({ code: "INVALID_CREDENTIALS", status: 401 });
  expect(client.sent.length).toBe(1);
});

test("Client: reports a revoked session once, after one refresh", async () => {
  let ended = 0;
  const { user, client } = await signedInClient(app, { onSignedOut: () => ended++ });
  await (await app.signIn(user)).delete("/user/sessions");
  const calls = await Promise.allSettled(times(3, () => client.user.getProfile()));
  for (const call of calls)
    expect(call).toMatchObject({ status: "rejected", reason: { code: "UNAUTHENTICATED" } });
  expect([ended, client.refreshes(), client.accessToken]).toEqual([1, 1, undefined]);
});

test("Client: keeps the session when the refresh fails for another reason", async () => {
  let answer: (() => Promise<Response>) | undefined;
  const { client } = await signedInClient(app, {
    fetch: (target, init) =>
      answer && String(target).endsWith("/auth/refresh") ? answer() : fetch(target, init),
  });
  app.clock.advance("16m");
  answer = () => Promise.reject(new TypeError("fetch failed"));
  await expect(client.user.getProfile()).rejects.toMatchObject({
    code: "NETWORK_ERROR",
    status: 0,
  });
  answer = async () => new Response("<h1>Sign in to the Wi-Fi</h1>", { status: 401 });
  await expect(client.user.getProfile()).rejects.toMatchObject({
    code: "UNEXPECTED_RESPONSE",
    status: 401,
  });
  answer = undefined;
  expect(await client.user.getProfile()).toMatchObject({ role: "user" });
});

test("Client: a sign-out during a refresh wins", async () => {
  const refreshed = Promise.withResolvers<void>();
  const store = memory();
  const { client } = await signedInClient(app, {
    refreshToken: store,
    fetch: async (target, init) => {
      const response = await fetch(target, init);
      if (String(target).endsWith("/auth/refresh")) await refreshed.promise;
      return response;
    },
  });
  const refreshing = client.auth.refresh();
  await client.auth.logout();
  refreshed.resolve();
  await refreshing;
  expect([client.accessToken, store.token]).toEqual([undefined, undefined]);
});

test("Client: two tabs of a browser refresh one after the other, and both stay signed in", async () => {
  const browser = browserAt(app.url);
  let departure: Promise<unknown> | undefined;
  const first = browser.tab();
  const second = browser.tab({ fetch: (target, init) => browser.fetch(target, init, departure) });
  const user = await app.addUser();
  await first.auth.login(user.credentials);
  expect(await second.resume()).toBe(true);
  // the first use of the new pair ends the grace period of the old one, which the second tab would
  // send
  departure = first.auth.refresh().then(() => first.user.getProfile());
  await second.auth.refresh();
  expect((await second.user.getProfile()).id).toBe(user.id);
  expect(
    first.sent.every(({ credentials, headers }) => credentials === "include" && !headers.cookie),
  ).toBe(true);
  expect(await Promise.all([first.resume(), second.resume()])).toEqual([true, true]);
});

test("Client: does not repeat a request for a user who has signed in since", async () => {
  const [store, bob] = [memory(), await app.signIn()];
  const { client } = await signedInClient(app, { refreshToken: store });
  store.token = bob.refreshToken;
  app.clock.advance("16m");
  await expect(client.user.updateProfile({ name: "Ann" })).rejects.toMatchObject({
    code: "UNAUTHENTICATED",
  });
  expect([client.accessToken, await client.resume()]).toEqual([undefined, true]); // it is Bob's
});

test("Client: a late refusal in another tab does not clear the cookie of a sign-in", async () => {
  const [user, browser] = [await app.addUser(), browserAt(app.url)];
  const late = browser.tab({
    fetch: (target, init) => browser.fetch(target, init, setTimeout(1_000)),
  });
  await browser.tab().auth.login(user.credentials);
  await app.sql("update sessions set revoked_at = ? where user_id = ?", [app.clock.now(), user.id]);
  await Promise.all([late.resume(), browser.tab().auth.login(user.credentials)]);
  expect(await browser.tab().resume()).toBe(true);
});
