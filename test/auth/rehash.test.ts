import { hash } from "@node-rs/argon2";
import { expect, test } from "vitest";
import { testApp } from "../app.ts";
import { times } from "../until.ts";

const app = await testApp();

test("a login brings an old hash up to today's parameters, parallel logins included", async () => {
  const user = await app.addUser();
  const old = await hash(user.password, { memoryCost: 8_192, timeCost: 1, parallelism: 1 });
  await app.sql("update users set password_hash = ? where id = ?", [old, user.id]);
  const answers = await Promise.all(times(4, () => app.visitor().post("/auth/login", user.credentials)));
  expect(answers.map((a) => a.status)).toEqual([200, 200, 200, 200]);
  const [row] = await app.sql<{ password_hash: string }>("select password_hash from users where id = ?", [user.id]);
  expect(row?.password_hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect((await app.visitor().post("/auth/login", user.credentials)).status).toBe(200);
});
