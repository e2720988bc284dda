import { expect, test } from "vitest";
import type { SignedIn } from "../../support/accounts.ts";
import { testApp } from "../../support/app.ts";
import { times } from "../../support/tally.ts";

const app = await testApp();
const remaining = (ids: string[]) =>
  app.sql("select id from users where role = 'admin' and id in (?)", [ids]);

const actions = {
  demote: (admin: SignedIn, { user }: SignedIn) => app.changeRole(admin, user.id, "user"),
  delete: ({ delete: remove }: SignedIn, { user }: SignedIn) => remove(`/admin/users/${user.id}`),
};

test.each([
  ["demote", "demote"],
  ["delete", "delete"],
  ["demote", "delete"],
  ["delete", "demote"],
] as const)(
  "Last administrator: if two concurrently %s and %s each other, one remains",
  async (first, second) => {
    for (let round = 0; round < 8; round++) {
      const [one, two] = [await app.signInAdmin(), await app.signInAdmin()];
      const answers = await Promise.all([actions[first](one, two), actions[second](two, one)]);
      const statuses = answers.map(({ status }) => status).sort();
      expect(statuses[0]).toBe(200);
      expect([401, 403, 404]).toContain(statuses[1]); // the role or the session has ended
      expect(await remaining([one.user.id, two.user.id])).toHaveLength(1);
    }
  },
);

test("Last administrator: if six concurrently demote each other, at least one remains", async () => {
  const admins = await Promise.all(times(6, () => app.signInAdmin()));
  const ids = admins.map(({ user }) => user.id);
  const answers = await Promise.all(
    admins.flatMap((admin) =>
      ids.filter((id) => id !== admin.user.id).map((id) => app.changeRole(admin, id, "user")),
    ),
  );
  for (const { status } of answers) expect([200, 401, 403]).toContain(status);
  expect((await remaining(ids)).length).toBeGreaterThan(0); // a demoted caller is refused
});

test("Last administrator: can be neither demoted nor deleted", async () => {
  const admin = await app.signInAdmin();
  const demotion = "update users set role = 'user' where role = 'admin' and id <> ? returning id";
  const others = await app.sql<{ id: string }>(demotion, [admin.user.id]);
  try {
    const root = await app.signInAdmin();
    const answers = await Promise.all([
      app.changeRole(admin, root.user.id, "user"),
      root.delete(`/admin/users/${admin.user.id}`),
    ]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await app.sql("select id from users where role = 'admin'")).toHaveLength(1);
  } finally {
    await app.sql("update users set role = 'admin' where id in (?)", [others.map(({ id }) => id)]);
  }
});
