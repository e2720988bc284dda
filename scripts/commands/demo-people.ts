/** The people of the demo: their names, places, devices, and when they joined. */

import { newId } from "../../services/store/ids.ts";
import type { PlacedNetwork } from "../simulators/places.ts";

export const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
/** Length of the history, in days. */
export const DAYS = 90;

/** People whom the history tells more about, and who joined first. */
const NAMED =
  `Ann Müller,Zoë Martin,Paul Okafor,Jonas Berg,Lena Fischer,Ravi Patel,Sofia Rossi,Emil Novak,Hana Suzuki,Kofi Mensah,
Clara Dubois,Diego Alvarez,Nora Lindqvist,Omar Haddad,Priya Nair,Tom Becker,Julia Kowalska,Ivan Petrov,Leïla Benali,
Marco Bianchi,Astrid Holm,Samuel Osei,Yuki Mori,Ella Virtanen,Noah Schneider,Amina Diallo,Lucas Moreau,Greta Weber,
Finn O'Connor,Rosa Jiménez,Viktor Horvat,Ines Costa,Adam Nowak,Maja Jensen,Elias Vogel,Chloé Laurent,Arjun Mehta`
    .split(",")
    .map((name) => name.trim());
/** Further people have their first names and surnames from these. */
const FIRST =
  "Anna,Ben,Carla,David,Emma,Felix,Gina,Hugo,Ida,Jan,Karim,Lara,Malik,Nina,Oskar,Paula,Quentin,Rania,Sven,Tara,Umar,Vera,Wim,Yara,Zeno".split(
    ",",
  );
const LAST =
  "Andersen,Brandt,Castro,Dahl,Eriksen,Fontaine,Garcia,Hoffmann,Ivanova,Jansen,Keller,Larsen,Meyer,Nakamura,Olsen,Pereira,Quist,Romano,Silva,Tran,Urban,Visser,Wagner,Yilmaz,Zeller".split(
    ",",
  );
/** Who has joined last. */
export const NEWEST = "Mia Tanaka";

/** A browser and system as sessions name them, and its User-Agent. */
type Client = readonly [device: string, agent: string];
export const CLIENTS: readonly [Client, Client, ...Client[]] = [
  [
    "Chrome on Linux",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
  ],
  [
    "Firefox on Windows",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
  ],
  [
    "Safari on iOS",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1",
  ],
  [
    "Chrome on macOS",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36",
  ],
];

/** Places, and how many hours their clocks are ahead of UTC. Most people are in Europe. */
const PLACES = [
  ["Berlin", "Germany", 1],
  ["Lagos", "Nigeria", 1],
  ["Kyoto", "Japan", 9],
  ["Lisbon", "Portugal", 0],
  ["Oslo", "Norway", 1],
  ["Lyon", "France", 1],
  ["Toronto", "Canada", -5],
  ["Warsaw", "Poland", 1],
  ["São Paulo", "Brazil", -3],
  ["Hamburg", "Germany", 1],
  ["Singapore", "Singapore", 8],
  ["Milan", "Italy", 1],
  ["Austin", "United States", -6],
  ["Nairobi", "Kenya", 3],
] as const;
/** Where somebody is whose name tells it. */
const HOMES: Record<string, number> = { "Paul Okafor": 1, [NEWEST]: 2 };
const BLOCK = 16;

/** The networks of the places, of addresses for documentation (RFC 5737). */
export const NETWORKS: readonly PlacedNetwork[] = PLACES.map(([city, country], i) => ({
  ...{ address: `203.0.113.${i * BLOCK}`, bits: 28 },
  ...{ city, country },
}));

/** Where and with what somebody does something. */
export type Source = { client: Client; ip: string; location: string };

/** @param place index of a place; any number */
export function sourceAt(place: number, host: number, client: Client): Source {
  const index = place % PLACES.length;
  const [city, country] = PLACES[index] ?? PLACES[0];
  return {
    client,
    ip: `203.0.113.${index * BLOCK + 1 + (host % (BLOCK - 2))}`,
    location: `${city}, ${country}`,
  };
}

export type Account = { email: string; name: string; role: "admin" | "user" };
export type Person = Account & {
  id: string;
  createdAt: Date;
  index: number;
  /** Index of the place where the person lives. */
  place: number;
  /** How much of UTC the person's clock is ahead of, in hours. */
  hoursAhead: number;
  /** Share of the working days on which the person signs in. */
  diligence: number;
};

/** The same numbers at each start, so that two demos look alike. */
export function createChance() {
  let state = 20_261_128;
  const next = () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
  return {
    next,
    below: (limit: number) => Math.floor(next() * limit),
    of: <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)] as T,
  };
}
export type Chance = ReturnType<typeof createChance>;

export const isWeekend = (time: number) => [0, 6].includes(new Date(time).getUTCDay());

/** When people joined, oldest first: more every week, and fewer at weekends. */
function joinTimes(now: number, chance: Chance): number[] {
  const times: number[] = [];
  let due = 0;
  for (let day = DAYS - 1; day >= 0; day--) {
    const midnight = now - (now % DAY) - day * DAY;
    const growth = 0.7 + (2.3 * (DAYS - day)) / DAYS;
    due += growth * (isWeekend(midnight) ? 0.45 : 1.15) * (0.8 + 0.4 * chance.next());
    for (; due >= 1; due--) times.push(midnight + (6 + chance.next() * 14) * HOUR);
  }
  return times.filter((time) => time < now - HOUR).sort((a, b) => a - b);
}

const nameOf = (index: number): string =>
  NAMED[index] ??
  `${FIRST[(index * 7) % FIRST.length]} ${LAST[(index * 7 + Math.floor(index / FIRST.length) * 3) % LAST.length]}`;

/** @param accounts people who have been there from the first day */
export function peopleOf(accounts: readonly Account[], now: number, chance: Chance): Person[] {
  const times = joinTimes(now, chance);
  const others = times.map((time, i) => ({ name: nameOf(i), time }));
  others.push({ name: NEWEST, time: now - 24 * MINUTE });
  const joined = [
    ...accounts.map((account) => ({ account, time: now - DAYS * DAY })),
    ...others.map(({ name, time }) => {
      const plain = name.normalize("NFD").replace(/[^a-z ]/gi, "");
      const email = `${plain.toLowerCase().replaceAll(" ", ".")}@example.com`;
      return { account: { name, email, role: "user" } as const, time };
    }),
  ];
  return joined.map(({ account, time }, index) => {
    const createdAt = new Date(time);
    const place = HOMES[account.name] ?? (index < 2 ? 0 : chance.below(PLACES.length));
    return {
      ...account,
      ...{ index, place, createdAt, id: newId(createdAt) },
      hoursAhead: (PLACES[place] ?? PLACES[0])[2],
      diligence: 0.12 + 0.6 * chance.next() ** 2,
    };
  });
}
