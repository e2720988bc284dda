/** Where networks are: an IPv4 prefix in bits and the English names of city and country. */
export type Place = { prefix: string; city?: string; country: string };

type Value = string | number | Value[] | { [key: string]: Value };
type Node = [Node | number | undefined, Node | number | undefined];

/** Writes a small MaxMind database (MaxMind DB file format 2.0, IPv4, records of 24 bits). */
export function writeMmdb(places: Place[]): Buffer {
  const data: Buffer[] = [];
  let size = 0;
  const root: Node = [undefined, undefined];
  for (const { prefix, city, country } of places) {
    const record = encode({
      ...(city && { city: { names: { en: city } } }),
      country: { names: { en: country } },
    });
    put(root, prefix, size);
    data.push(record);
    size += record.length;
  }
  const nodes = flatten(root);
  const tree = Buffer.alloc(nodes.length * 6);
  nodes.forEach((node, index) => {
    node.forEach((child, side) => {
      const value =
        child === undefined
          ? nodes.length
          : typeof child === "number"
            ? nodes.length + 16 + child
            : nodes.indexOf(child);
      tree.writeUIntBE(value, index * 6 + side * 3, 3);
    });
  });
  const metadata = encode({
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1,
    database_type: "Test-City",
    description: { en: "test" },
    ip_version: 4,
    languages: ["en"],
    node_count: nodes.length,
    record_size: 24,
  });
  const mark = Buffer.concat([Buffer.from([0xab, 0xcd, 0xef]), Buffer.from("MaxMind.com")]);
  return Buffer.concat([tree, Buffer.alloc(16), ...data, mark, metadata]);
}

/** The first bits of an address, such as those of 81.2.69.0/24. */
export function prefixOf(address: string, bits: number): string {
  return address
    .split(".")
    .map((byte) => Number(byte).toString(2).padStart(8, "0"))
    .join("")
    .slice(0, bits);
}

function put(node: Node, prefix: string, offset: number): void {
  const side = Number(prefix[0]) as 0 | 1;
  if (prefix.length === 1) node[side] = offset;
  else {
    node[side] ??= [undefined, undefined];
    put(node[side] as Node, prefix.slice(1), offset);
  }
}

function flatten(node: Node): Node[] {
  return [node, ...node.flatMap((child) => (Array.isArray(child) ? flatten(child) : []))];
}

function encode(value: Value): Buffer {
  if (typeof value === "string") return Buffer.concat([control(2, Buffer.byteLength(value)), Buffer.from(value)]);
  if (typeof value === "number") {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(value);
    return Buffer.concat([control(6, 4), bytes]);
  }
  if (Array.isArray(value)) return Buffer.concat([Buffer.from([value.length, 11 - 7]), ...value.map(encode)]);
  const entries = Object.entries(value);
  return Buffer.concat([control(7, entries.length), ...entries.flatMap(([key, item]) => [encode(key), encode(item)])]);
}

/** Names here are shorter than 29 bytes. */
function control(type: number, size: number): Buffer {
  if (size > 28) throw new Error("too long for this writer");
  return Buffer.from([(type << 5) | size]);
}
