import type { Conversation } from "./conversation.ts";

const STORE = "conversations";
const nameOf = (userId: string) => `gatehouse-${userId}`;

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function open(userId: string): Promise<IDBDatabase> {
  const request = indexedDB.open(nameOf(userId), 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
  const database = await done(request);
  database.onversionchange = () => database.close(); // another tab is deleting it
  return database;
}

/**
 * Stores the conversations of a user in this browser. If the browser has no storage, they last
 * until a reload.
 */
export class Kept {
  readonly #database: Promise<IDBDatabase | undefined>;

  constructor(userId: string) {
    this.#database = open(userId).catch(() => undefined);
  }

  async #use<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>) {
    const database = await this.#database;
    return database && done(work(database.transaction(STORE, mode).objectStore(STORE)));
  }

  all = async (): Promise<Conversation[]> =>
    (await this.#use("readonly", (store) => store.getAll() as IDBRequest<Conversation[]>)) ?? [];
  get = (id: string) =>
    this.#use("readonly", (store) => store.get(id) as IDBRequest<Conversation | undefined>);
  /** If the disk is full, conversations remain visible until a reload. */
  put = (conversation: Conversation) =>
    this.#use("readwrite", (store) => store.put(conversation)).catch(() => undefined);
  remove = (id: string) =>
    this.#use("readwrite", (store) => store.delete(id)).catch(() => undefined);

  /** Deletes everything. */
  async destroy(userId: string): Promise<void> {
    (await this.#database)?.close();
    indexedDB.deleteDatabase(nameOf(userId));
  }
}
