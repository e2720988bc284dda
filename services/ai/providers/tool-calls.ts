import { createCallId } from "./call-ids.ts";
import type { Piece } from "./provider.ts";

/** What one event says about a tool call. Its types are unchecked. */
export type ToolCallPart = {
  /** Which call of the reply it is, in the provider's counting. Absent: a separate call. */
  key?: unknown;
  id?: unknown;
  name?: unknown;
  /** The next piece of the arguments, or all of them as an object. */
  arguments?: unknown;
  /** The arguments of a call for which no pieces follow. */
  input?: unknown;
  /** Google's signature of the thoughts before the call, in base64. */
  signature?: unknown;
};

/** Size of a call that is held, in characters, in addition to its texts. */
const CALL_CHARACTERS = 256;

type ToolCallPiece = Extract<Piece, { kind: "tool-call" }>;

/** A call of the reply. */
type Call = {
  givenId: unknown;
  name: string;
  signature: string;
  /** Number of the call; undefined until its name is known. */
  index: number | undefined;
  /** All arguments so far. */
  json: string;
  /** Arguments that have not been passed on. */
  waiting: string;
  input: unknown;
};

/**
 * Collects the tool calls of one reply. Numbers them from 0 in the order in which they begin,
 * whatever the provider counts, and holds each back until its name is known.
 */
export class ToolCalls {
  readonly #calls: Call[] = [];
  /** The latest call of each key, as text: some servers send numbers in both forms. */
  readonly #byKey = new Map<string, Call>();
  /** The ids that have been passed on. Clients cannot tell two calls with the same id apart. */
  readonly #ids = new Set<string>();
  #named = 0;
  /** Number of characters that are held. */
  length = 0;

  /** Whether there is any call. */
  get hasAny(): boolean {
    return this.#calls.length > 0;
  }

  /**
   * Whether every call has a name and its arguments are a complete object, as they are unless the
   * reply was cut off.
   */
  get areComplete(): boolean {
    return this.#calls.every(({ index, json }) => index !== undefined && isObjectText(json));
  }

  /**
   * Adds what an event says of a call.
   * @throws TypeError for values of other types
   */
  add(part: ToolCallPart): ToolCallPiece[] {
    const { arguments: json, ...head } = part;
    const call = this.#callOf(head);
    this.length += JSON.stringify(head).length;
    call.name ||= textIn(head.name);
    call.signature ||= textIn(head.signature);
    call.input ??= head.input;
    return this.#pass(call, argumentsIn(json));
  }

  /**
   * Ends the calls, if the reply is not cut off: one without arguments has an empty object.
   * @returns undefined if a call has no name
   */
  end(): ToolCallPiece[] | undefined {
    if (this.#calls.some(({ name }) => name === "")) return undefined;
    return this.#calls.flatMap((call) =>
      call.json.trim() === "" ? this.#pass(call, JSON.stringify(call.input ?? {})) : [],
    );
  }

  #callOf(part: Omit<ToolCallPart, "arguments">): Call {
    const key = part.key === undefined ? undefined : String(part.key);
    const known = key === undefined ? undefined : this.#byKey.get(key);
    if (known && !isAnother(part, known)) {
      known.givenId ||= part.id;
      return known;
    }
    const call: Call = {
      givenId: part.id,
      name: "",
      signature: "",
      index: undefined,
      json: "",
      waiting: "",
      input: undefined,
    };
    this.#calls.push(call);
    this.length += CALL_CHARACTERS;
    if (key !== undefined) this.#byKey.set(key, call);
    return call;
  }

  /** Passes arguments on, with the beginning of the call if its name has become known. */
  #pass(call: Call, json: string): ToolCallPiece[] {
    call.json += json;
    call.waiting += json;
    this.length += json.length;
    const isFirst = call.index === undefined;
    if (call.name === "" || (!isFirst && json === "")) return [];
    call.index ??= this.#named++;
    const piece: ToolCallPiece = { kind: "tool-call", index: call.index, arguments: call.waiting };
    call.waiting = "";
    if (!isFirst) return [piece];
    const { givenId, name, signature } = call;
    const isUsable = typeof givenId === "string" && givenId !== "" && signature === "";
    const id = isUsable && !this.#ids.has(givenId) ? givenId : createCallId(signature);
    this.#ids.add(id);
    return [{ ...piece, id, name, ...(signature !== "" && { signature }) }];
  }
}

/**
 * Whether a part begins another call under the key of a known one: some servers count all calls as
 * the first. Others repeat the name with every piece, or send a new id with each.
 */
function isAnother({ id, name }: ToolCallPart, known: Call): boolean {
  if (!name || known.name === "") return false;
  if (id && known.givenId && id !== known.givenId) return true;
  const isRepeated = id && known.givenId && name === known.name;
  return !isRepeated && isObjectText(known.json);
}

/** @throws TypeError for a value that is not text */
function textIn(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw new TypeError("Text is a string.");
  return value;
}

/** Some servers send all arguments as an object. */
const argumentsIn = (value: unknown): string =>
  typeof value === "object" && value !== null ? JSON.stringify(value) : textIn(value);

/** Whether a text is a JSON object. */
function isObjectText(json: string): boolean {
  if (!json.trimEnd().endsWith("}")) return false; // parsing every beginning would take long
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
