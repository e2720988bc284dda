// API keys of users and service accounts.

import { PASSWORD, type SignedIn } from "./accounts.ts";
import type { TestApp } from "./app.ts";

/** A key as POST /user/api-keys returns it. */
export type CreatedKey = { key: string; apiKey: { id: string; name: string; hint: string } };

/** What a user sends to create a key. */
type KeyForm = { name?: string; expiresAt?: string; models?: string[] };

/** Creates an API key of a user. */
export async function createKey(
  { post }: Pick<SignedIn, "post">,
  form: KeyForm = {},
): Promise<CreatedKey> {
  const { status, body } = await post("/user/api-keys", {
    name: "CI",
    password: PASSWORD,
    ...form,
  });
  if (status !== 200) throw new Error(`api-keys answered ${status} ${JSON.stringify(body)}`);
  return body;
}

/** Creates a service account with a key, as an administrator. */
export async function createService(app: TestApp, form: KeyForm & { name?: string } = {}) {
  const admin = await app.signInAdmin();
  const { body: created } = await admin.post("/admin/service-accounts", { name: "Nightly report" });
  const id = created.user.id as string;
  const { status, body } = await admin.post(`/admin/users/${id}/api-keys`, {
    name: "CI",
    password: PASSWORD,
    ...form,
  });
  if (status !== 200) throw new Error(`api-keys answered ${status} ${JSON.stringify(body)}`);
  return { admin, id, email: created.user.email as string, ...(body as CreatedKey) };
}

/** The status of GET /ai/providers with a key, from a new address: 200 while the key is valid. */
export const keyStatus = async (app: Pick<TestApp, "httpClient">, key: string) =>
  (await app.httpClient().get("/ai/providers", key)).status;
