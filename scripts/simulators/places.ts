/** Writes a database of places in MaxMind's format, for addresses that belong to nobody. */
import { writeFileSync } from "node:fs";

/** Where the addresses of an IPv4 network are. */
export type PlacedNetwork = { address: string; bits: number; city: string; country: string };

/**
 * Types of the data section, by https://maxmind.github.io/MaxMind-DB/. Those above 7 have a second
 * byte.
 */
const [TEXT, UINT16, UINT32, MAP, UINT64, ARRAY] = [2, 5, 6, 7, 9, 11] as const;
/** Sizes are written in the first byte, which has room for less than 29. */
const MAX_SIZE = 28;
const RECORD_BYTES = 3;
const SEPARATOR = Buffer.alloc(16);
const METADATA_START = Buffer.from("\xab\xcd\xefMaxMind.com", "latin1");

function control(type: number, size: number): Buffer {
  if (size > MAX_SIZE) throw new Error(`a value of ${size} is too long`);
  return Buffer.from(type > MAP ? [size, type - MAP] : [(type << 5) | size]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([control(TEXT, bytes.length), bytes]);
}

function uint(type: number, bytes: number, value: number): Buffer {
  const number = Buffer.alloc(bytes);
  number.writeUIntBE(value, 0, bytes);
  return Buffer.concat([control(type, bytes), number]);
}

function map(entries: Record<string, Buffer>): Buffer {
  const pairs = Object.entries(entries).flatMap(([key, value]) => [text(key), value]);
  return Buffer.concat([control(MAP, Object.keys(entries).length), ...pairs]);
}

const names = (name: string) => map({ names: map({ en: text(name) }) });

/** A bit of a node leads to another node, or to data; to nothing if it is undefined. */
type Node = [zero?: { node: number } | { data: number }, one?: { node: number } | { data: number }];

/** Adds a network to the search tree, whose first node is the root. */
function insert(nodes: Node[], { address, bits }: PlacedNetwork, data: number): void {
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  let at = 0;
  for (let bit = 0; bit < bits; bit++) {
    const node = nodes[at] as Node;
    const side = Math.floor(number / 2 ** (31 - bit)) % 2;
    const next = node[side];
    if (bit === bits - 1) node[side] = { data };
    else if (next && "node" in next) at = next.node;
    else {
      node[side] = { node: nodes.length };
      at = nodes.length;
      nodes.push([]);
    }
  }
}

/** Writes a city database of the given networks, which do not overlap. */
export function writePlaces(file: string, networks: readonly PlacedNetwork[]): void {
  const nodes: Node[] = [[]];
  const entries: Buffer[] = [];
  let offset = 0;
  for (const network of networks) {
    const entry = map({ city: names(network.city), country: names(network.country) });
    insert(nodes, network, offset);
    entries.push(entry);
    offset += entry.length;
  }
  const tree = Buffer.alloc(nodes.length * 2 * RECORD_BYTES);
  for (const [i, node] of nodes.entries())
    for (const side of [0, 1] as const) {
      const to = node[side];
      const found = to && "data" in to ? nodes.length + SEPARATOR.length + to.data : to?.node;
      const at = (2 * i + side) * RECORD_BYTES;
      tree.writeUIntBE(found ?? nodes.length, at, RECORD_BYTES);
    }
  const metadata = map({
    node_count: uint(UINT32, 4, nodes.length),
    record_size: uint(UINT16, 2, RECORD_BYTES * 8),
    ip_version: uint(UINT16, 2, 4),
    database_type: text("Simulated-City"),
    languages: Buffer.concat([control(ARRAY, 1), text("en")]),
    binary_format_major_version: uint(UINT16, 2, 2),
    binary_format_minor_version: uint(UINT16, 2, 0),
    build_epoch: uint(UINT64, 6, Math.floor(Date.now() / 1000)),
    description: map({ en: text("Places of the demo") }),
  });
  writeFileSync(file, Buffer.concat([tree, SEPARATOR, ...entries, METADATA_START, metadata]));
}
