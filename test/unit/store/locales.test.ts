import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Mode, startSuiteApp } from "../../support/app.ts";
import { createDatabase } from "../../support/database/databases.ts";

const servers = Boolean(process.env.TEST_SERVERS);

/** Databases that order and fold letters in different ways. */
const locales: { locale: string; mode: Mode; options?: string }[] = [
  { locale: "of the embedded database", mode: "embedded" },
  ...(servers
    ? ([
        { locale: "of the server", mode: "servers", options: "" },
        {
          locale: "tr-TR",
          mode: "servers",
          options: "locale_provider icu icu_locale 'tr-TR' template template0",
        },
        {
          locale: "lt-LT",
          mode: "servers",
          options: "locale_provider icu icu_locale 'lt-LT' template template0",
        },
        {
          locale: "C",
          mode: "servers",
          options: "lc_collate 'C' lc_ctype 'C' template template0",
        },
      ] as const)
    : []),
];

/** What is stored, and what finds it; # stands for what makes it unique. */
const people = [
  {
    email: "info.#@example.com",
    name: "Ingrid #",
    finds: ["INFO.#", "info.#", "Info.#@Example.COM", "INGRID #"],
  },
  { email: "INIT.#@EXAMPLE.COM", name: "IRIS IDLE #", finds: ["init.#", "iris idle #", "INIT.#@"] },
  {
    email: "i.#@bücher.example",
    name: "Zoë Ångström #",
    finds: [
      "i.#@xn--bcher-kva.example",
      "i.#@BÜCHER.example",
      "i.#@bu\u0308cher.example",
      "ZOË ÅNGSTRÖM #",
      "zoe\u0308 a\u030angstro\u0308m #",
    ],
  },
  {
    email: "j.#@xn--bcher-kva.example",
    name: "Jo #",
    finds: ["j.#@bücher.example", "J.#@XN--BCHER-KVA.EXAMPLE", "j.#@bücher.ex"],
  },
  {
    email: "k.#@example.com",
    name: "Anne–Marie #",
    finds: ["anne-marie #", "Anne\u2011Marie #", "ANNE—MARIE #", "Anne–Marie\u00a0#"],
  },
  {
    email: "l7.#@example.com",
    name: "علی ٧ #",
    finds: ["l٧.#", "ｌ７.#", "l\u200b7.#", "علی ٧ #"],
  },
  {
    email: "m.#@example.com",
    name: "İbrahim Işık #",
    finds: ["ibrahim", "İBRAHİM IŞIK #", "ibrahim ışık #", "IBRAHIM IŞIK #", "i\u0307brahim"],
  },
  {
    email: "n.#@example.com",
    name: "ΣΊΣΥΦΟΣ #",
    finds: ["σίσυφος #", "σίσυφοσ #", "Σίσυφος #", "ΣΊΣ", "σίς"],
  },
  {
    email: "o.#@example.com",
    name: "Anna Groß #",
    finds: ["GROSS #", "Groß #", "GROẞ #", "gross #"],
  },
];
const recipients = [
  {
    email: "Info.#@example.com",
    finds: ["INFO.#@example.com", "info.#@EXAMPLE.COM", " info.#@exam\u200bple.com"],
  },
  {
    email: "i.#@bücher.example",
    finds: ["i.#@xn--bcher-kva.example", "I.#@BÜCHER.EXAMPLE", "i.#@bu\u0308cher.example"],
  },
  {
    email: "i.#@xn--bcher-kva.example",
    finds: ["i.#@bücher.example", "i.#@xn--bcher-kva.example"],
  },
];

describe.each(locales)("Database with the locale $locale", async ({ mode, options }) => {
  const database =
    options === undefined ? {} : { DATABASE_URL: await createDatabase(undefined, options) };
  const app = await startSuiteApp({ mode, env: database });
  const admin = await app.signInAdmin();
  const fill = (text: string, id: string) => text.replace("#", id);

  test.each(people)(
    "GET /admin/users: finds $email in every spelling",
    async ({ email, name, finds }) => {
      const id = randomUUID().slice(0, 8);
      const user = await app.addUser({ email: fill(email, id), name: fill(name, id) });
      for (const text of finds) {
        const search = encodeURIComponent(fill(text, id));
        const { body } = await admin.get(`/admin/users?search=${search}`);
        expect(
          body.items.map((item: { id: string }) => item.id),
          text,
        ).toEqual([user.id]);
      }
      const { body } = await admin.get(`/admin/users?search=${encodeURIComponent(`no ${id}`)}`);
      expect(body.items).toEqual([]);
    },
  );

  test.each(recipients)(
    "GET /admin/email-logs: finds e-mails to $email in every spelling",
    async ({ email, finds }) => {
      const id = randomUUID().slice(0, 8);
      const user = await app.addUser({ email: fill(email, id) });
      for (const text of finds) {
        const { body } = await admin.get(
          `/admin/email-logs?to=${encodeURIComponent(fill(text, id))}`,
        );
        expect(
          body.items.map((item: { userId: string }) => item.userId),
          text,
        ).toEqual([user.id]);
      }
    },
  );

  test("POST /auth/login: accepts an address in capitals", async () => {
    const { email } = await app.addUser({ email: `infiniti.${randomUUID()}@example.com` });
    expect((await app.login(email.toUpperCase())).status).toBe(200);
  });
});
