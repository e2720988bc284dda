import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import {
  ListEmailLogsRequestSchema,
  ListUsersRequestSchema,
} from "../../../gen/gatehouse/account/v1/admin_service_pb.ts";
import {
  RegisterRequestSchema,
  VerifyEmailRequestSchema,
  VerifyMfaRequestSchema,
} from "../../../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  checkRegistration,
  readCommonPasswords,
} from "../../../services/accounts/password-rules.ts";
import { violationsOf } from "../../../services/platform/rpc/validation.ts";

/** A repeatable source of numbers below a bound (mulberry32). */
function randomFrom(seed: number) {
  let state = seed;
  return (bound: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

/** All characters of the Basic Multilingual Plane and the next that a pattern matches. */
function charactersOf(pattern: RegExp): string[] {
  const all = Array.from({ length: 0x2_0000 }, (_, i) => i).filter((i) => i < 0xd800 || i > 0xdfff);
  return all.map((codePoint) => String.fromCodePoint(codePoint)).filter((c) => pattern.test(c));
}

const blanks = charactersOf(/\p{White_Space}/u);
const invisible = charactersOf(/\p{Default_Ignorable_Code_Point}/u);
const dashes = charactersOf(/\p{Pd}|\p{Dash}/u);
const digits = charactersOf(/\p{Nd}/u);
/** Ten digits of each script, in their order. */
const scripts = Array.from({ length: digits.length / 10 }, (_, i) =>
  digits.slice(10 * i, 10 * i + 10),
);

type Random = ReturnType<typeof randomFrom>;
const oneOf = <T>(random: Random, items: readonly T[]): T => items[random(items.length)] as T;

/** Puts some of these characters between those of a text and around it. */
const sprinkle = (random: Random, text: string, characters: readonly string[]): string =>
  ["", ...text].map((c) => c + (random(3) === 0 ? oneOf(random, characters) : "")).join("");
const wrap = (random: Random, text: string, characters: readonly string[]): string =>
  oneOf(random, characters) + text + oneOf(random, characters);
const inScript = (random: Random, text: string): string => {
  const script = oneOf(random, scripts);
  return text.replace(/[0-9]/g, (digit) => script[Number(digit)] as string);
};
const inFullWidth = (random: Random, text: string): string =>
  text.replace(/[!-~]/g, (c) =>
    random(2) === 0 ? c : String.fromCharCode(c.charCodeAt(0) + 0xfee0),
  );
const withDashes = (random: Random, text: string): string =>
  text.replaceAll("-", () => oneOf(random, dashes));
const inForm = (random: Random, text: string): string =>
  text.normalize(oneOf(random, ["NFC", "NFD", "NFKC", "NFKD"]));

const ROUNDS = 300;
const rounds = Array.from({ length: ROUNDS }, (_, seed) => seed + 1);
/** Runs a property with each seed, which is named when it fails. */
const always = (property: (random: Random, seed: number) => void) => {
  for (const seed of rounds) property(randomFrom(seed), seed);
};

const RULES = {
  commonPasswords: readCommonPasswords({ passwordBlocklist: true }),
  config: { appName: "Gatehouse" },
};

const codeOf = (random: Random): string =>
  Array.from({ length: 6 }, () => String(random(10))).join("");
const lettersOf = (random: Random, alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet[random(alphabet.length)]).join("");

describe("Typed texts", () => {
  test("the tables contain the digits of over fifty scripts, each with ten consecutive characters", () => {
    expect(scripts.length).toBeGreaterThan(50);
    for (const script of scripts.filter(([zero = ""]) => zero < "\u{1d7ce}"))
      expect(
        script.every((c, i) => c.codePointAt(0) === (script[0]?.codePointAt(0) ?? 0) + i),
      ).toBe(true);
  });

  test("a code is read whatever its typography", () => {
    always((random, seed) => {
      const code = codeOf(random);
      const typed = sprinkle(random, inScript(random, code), [...blanks, ...invisible, ...dashes]);
      const message = create(VerifyMfaRequestSchema, { tempToken: "t", code: typed });
      violationsOf(VerifyMfaRequestSchema, message);
      expect(message.code, `seed ${seed}`).toBe(code);
    });
  });

  test("a backup code is read whatever its typography", () => {
    always((random, seed) => {
      const code = lettersOf(random, "23456789ABCDEFGHJKMNPQRSTVWXYZ", 8);
      const typed = `${code.slice(0, 4)}${oneOf(random, dashes)}${code.slice(4)}`;
      const backupCode = sprinkle(random, inFullWidth(random, typed), [...blanks, ...invisible]);
      const message = create(VerifyMfaRequestSchema, { tempToken: "t", backupCode });
      violationsOf(VerifyMfaRequestSchema, message);
      expect(message.backupCode, `seed ${seed}`).toBe(code);
    });
  });

  test("a token is read however it is pasted, and its dashes are significant", () => {
    always((random, seed) => {
      const token = lettersOf(random, "ABCxyz0189-_.", 43);
      const typed = sprinkle(random, withDashes(random, token), [...blanks, ...invisible]);
      const message = create(VerifyEmailRequestSchema, { token: typed });
      expect(violationsOf(VerifyEmailRequestSchema, message), `seed ${seed}`).toEqual([]);
      expect(message.token, `seed ${seed}`).toBe(token);
    });
  });

  test("an address is stored in its visible form, without surrounding or invisible characters", () => {
    always((random, seed) => {
      const address = `Ann-${codeOf(random)}@mail-${codeOf(random)}.example.com`;
      const written = withDashes(random, inFullWidth(random, inScript(random, address)));
      const to = wrap(random, sprinkle(random, written, invisible), blanks);
      const message = create(ListEmailLogsRequestSchema, { to });
      violationsOf(ListEmailLogsRequestSchema, message);
      expect(message.to, `seed ${seed}`).toBe(address);
    });
  });

  test("a name is stored in its composed form, without surrounding invisible characters", () => {
    const unjoined = invisible.filter((c) => !/\u200c|\u200d|\p{Variation_Selector}/u.test(c));
    always((random, seed) => {
      const name = oneOf(random, [
        "Zoë Ångström",
        "Việt Nguyễn",
        "가나 다라",
        "Ann–Marie",
        "Łucja",
      ]);
      const form = oneOf(random, ["NFC", "NFD"] as const);
      const edges = [...blanks, ...unjoined, "\u200d"];
      const typed = wrap(random, sprinkle(random, name.normalize(form), unjoined), edges);
      const message = create(RegisterRequestSchema, { name: typed });
      violationsOf(RegisterRequestSchema, message);
      expect(message.name, `seed ${seed}`).toBe(name.normalize("NFC"));
    });
  });

  test("a search has one form, whatever the normal form of its text", () => {
    const unjoined = invisible.filter((c) => !/\u200c|\u200d|\p{Variation_Selector}/u.test(c));
    always((random, seed) => {
      const text = oneOf(random, ["Zoë Ångström", "ann@bücher.example", "ﬁona ①", "가나 다라"]);
      const search = wrap(random, sprinkle(random, inForm(random, text), unjoined), blanks);
      const message = create(ListUsersRequestSchema, { search });
      expect(violationsOf(ListUsersRequestSchema, message), `seed ${seed}`).toEqual([]);
      expect(message.search, `seed ${seed}`).toBe(text.normalize("NFKC"));
    });
  });

  test("folding is idempotent", () => {
    always((random, seed) => {
      const noise = [...blanks, ...invisible, ...dashes, ...digits, "a", "é", "@", "."];
      const text = Array.from({ length: 12 }, () => oneOf(random, noise)).join("");
      const once = create(RegisterRequestSchema, { email: text, name: text, password: text });
      violationsOf(RegisterRequestSchema, once);
      const twice = create(RegisterRequestSchema, once);
      violationsOf(RegisterRequestSchema, twice);
      expect(twice, `seed ${seed}`).toEqual(once);
    });
  });

  test.each([
    ["blanks", `a${" ".repeat(16_000)}b`],
    ["blanks that are just folded", `a${" ".repeat(8_000)}b`],
    ["invisible characters", `a${"\u200b".repeat(8_000)}b`],
    [
      "different letters in a domain",
      `a@${charactersOf(/\p{Unified_Ideograph}/u)
        .join("")
        .slice(0, 8_000)}`,
    ],
    ["labels of a domain", `a@${"ä.".repeat(8_000)}`],
  ])("a text with thousands of %s does not take long", (_what, text) => {
    const startedAt = performance.now();
    const request = create(RegisterRequestSchema, { email: text, name: text, password: text });
    expect(violationsOf(RegisterRequestSchema, request)).not.toEqual([]);
    expect(checkRegistration(RULES)(request)).not.toEqual([]);
    const search = create(ListUsersRequestSchema, { search: text });
    expect(violationsOf(ListUsersRequestSchema, search)).not.toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(50);
  });

  test("a text that no rule accepts is rejected before it is folded", () => {
    const message = create(VerifyEmailRequestSchema, { token: " ".repeat(2_000_000) });
    const startedAt = performance.now();
    expect(violationsOf(VerifyEmailRequestSchema, message)).not.toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(message.token).toHaveLength(2_000_000);
  });
});
