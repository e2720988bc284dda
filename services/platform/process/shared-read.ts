import { setImmediate } from "node:timers/promises";

/**
 * Creates a function that reads the value for a key. Calls in the same turn of the event loop share
 * one read.
 */
export function createSharedRead<Value>(
  read: (keys: string[]) => Promise<Map<string, Value>>,
): (key: string) => Promise<Value | undefined> {
  const keys = new Set<string>();
  let pending: Promise<Map<string, Value>> | undefined;
  const load = async () => {
    await setImmediate();
    const batch = [...keys];
    keys.clear();
    pending = undefined; // later callers get the next read
    return read(batch);
  };
  return async (key) => {
    keys.add(key);
    pending ??= load();
    return (await pending).get(key);
  };
}
