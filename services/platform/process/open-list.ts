const POSITION = Symbol("position in its list");
type Listed<Item> = Item & { [POSITION]?: number };

/**
 * Objects that come and go with every call, such as the calls in progress. An object can be in one
 * list.
 *
 * Not a `Set`, which leaves a hash table behind whenever it grows or shrinks. Each table refers to
 * its successor: once V8 has moved one to the old space, all later ones and every call in them stay
 * in memory until the next full collection, which takes more CPU time than everything else here.
 */
export class OpenList<Item extends object> implements Iterable<Item> {
  readonly #items: Listed<Item>[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: Listed<Item>): void {
    item[POSITION] = this.#items.push(item) - 1;
  }

  /**
   * Removes an item. The last one takes its place.
   * @returns whether it was in the list
   */
  delete(item: Listed<Item>): boolean {
    const position = item[POSITION] ?? -1;
    if (this.#items[position] !== item) return false;
    const last = this.#items.pop() as Listed<Item>;
    if (last === item) return true;
    this.#items[position] = last;
    last[POSITION] = position;
    return true;
  }

  /** The items of this moment: they may be removed during the iteration. */
  [Symbol.iterator](): Iterator<Item> {
    return [...this.#items].values();
  }
}
