import { expect, test } from "vitest";
import { signInAdmin } from "../../support/admin.ts";
import { testApp } from "../../support/app.ts";
import { times } from "../../support/until.ts";

const app = await testApp();

test.each(["demote", "delete", "demote and delete"])(
  "Last administrator: if two %s each other at once, one remains",
  async (action) => {
    for (const round of times(8, (i) => i)) {
      const pair = await Promise.all([signInAdmin(app), signInAdmin(app)]);
      const answers = await Promise.all(
        pair.map((admin, i) => {
          const path = `/admin/users/${pair[1 - i]?.user.id}`;
          const demotes = action === "demote" || (action !== "delete" && i === round % 2);
          return demotes ? admin.put(path, { role: "user" }) : admin.delete(path);
        }),
      );
      const statuses = answers.map(({ status }) => status).sort();
      expect(statuses[0]).toBe(200);
      expect([401, 403, 404]).toContain(statuses[1]); // the role or the session has ended
      const left = await app.sql("select id from users where role = 'admin' and id in (?)", [
        pair.map(({ user }) => user.id),
      ]);
      expect(left).toHaveLength(1);
    }
  },
);

test("Last administrator: if six demote each other at once, at least one remains", async () => {
  const admins = await Promise.all(times(6, () => signInAdmin(app)));
  const ids = admins.map(({ user }) => user.id);
  const answers = await Promise.all(
    admins.flatMap((admin) =>
      ids.filter((id) => id !== admin.user.id).map((id) => admin.put(`/admin/users/${id}`, { role: "user" })),
    ),
  );
  for (const { status } of answers) expect([200, 401, 403]).toContain(status);
  const left = await app.sql("select id from users where role = 'admin' and id in (?)", [ids]);
  expect(left.length).toBeGreaterThan(0); // a demoted caller is refused
});

test("Last administrator: cannot be demoted or deleted", async () => {
  const admin = await signInAdmin(app);
  const others = await app.sql<{ id: string }>("select id from users where role = 'admin' and id <> ?", [
    admin.user.id,
  ]);
  await app.sql("update users set role = 'user' where role = 'admin' and id <> ?", [admin.user.id]);
  try {
    const root = await signInAdmin(app);
    const answers = await Promise.all([
      admin.put(`/admin/users/${root.user.id}`, { role: "user" }),
      root.delete(`/admin/users/${admin.user.id}`),
    ]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(await app.sql("select id from users where role = 'admin'")).toHaveLength(1);
  } finally {
    await app.sql("update users set role = 'admin' where id in (?)", [others.map(({ id }) => id)]);
  }
});
