import { hash } from "@node-rs/argon2";
import { expect, test } from "vitest";
import { CHEAP, testApp } from "../../support/app.ts";
import { commitMeanwhile } from "../../support/transaction.ts";
import { times } from "../../support/until.ts";

const app = await testApp();

const outdated = (password: string) =>
  hash(password, { memoryCost: CHEAP.memoryCost / 2, timeCost: 1, parallelism: 1 });

test("POST /auth/login: rehashes an old hash with the current parameters, also under parallel logins", async () => {
  const user = await app.addUser();
  await app.sql("update users set password_hash = ? where id = ?", [await outdated(user.password), user.id]);
  const answers = await Promise.all(times(4, () => app.httpClient().post("/auth/login", user.credentials)));
  expect(answers.map((a) => a.status)).toEqual([200, 200, 200, 200]);
  const [row] = await app.sql<{ password_hash: string }>("select password_hash from users where id = ?", [user.id]);
  expect(row?.password_hash).toMatch(`$argon2id$v=19$m=${CHEAP.memoryCost},t=${CHEAP.timeCost},p=1$`);
  expect((await app.httpClient().post("/auth/login", user.credentials)).status).toBe(200);
});

test.runIf(app.mode !== "embedded")(
  "POST /auth/login: a rehash never overwrites a password that changes before the commit",
  async () => {
    const user = await app.addUser();
    await app.sql("update users set password_hash = ? where id = ?", [await outdated(user.password), user.id]);
    const change = "update users set password_hash = 'new', password_changed_at = now() where id = $1";
    const login = () => app.httpClient().post("/auth/login", user.credentials);
    const url = app.settings.DATABASE_URL as string;
    expect((await commitMeanwhile(url, change, [user.id], login)).status).toBe(401);
    const [row] = await app.sql("select password_hash from users where id = ?", [user.id]);
    expect(row).toEqual({ password_hash: "new" });
  },
);
