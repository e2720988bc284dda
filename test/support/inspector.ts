import type { Process } from "./deployment.ts";

/** Counts the listeners of emitters, and those of abort signals, in the inspected process. */
const COUNT = `function () {
  const { getEventListeners } = process.getBuiltinModule("node:events");
  let count = 0;
  for (const each of this) {
    try {
      for (const name of each.eventNames?.() ?? ["abort"]) count += getEventListeners(each, name).length;
    } catch {} // a prototype is neither
  }
  return count;
}`;

/**
 * Collects the garbage of a process, and counts the listeners of the remaining objects.
 * The process must have been started with `--inspect`.
 */
export async function countListeners(process: Process): Promise<number> {
  const inspector = await inspect(process);
  await inspector.ask("HeapProfiler.enable");
  // objects of weak references and finalizers are collected some rounds later
  for (let round = 0; round < 5; round++) await inspector.ask("HeapProfiler.collectGarbage");
  const emitters = await inspector.count("process.getBuiltinModule('node:events').EventEmitter.prototype");
  const signals = await inspector.count("AbortSignal.prototype");
  inspector.close();
  return emitters + signals;
}

async function inspect(process: Process) {
  const [address] = /ws:\/\/\S+/.exec(process.output()) ?? [];
  const socket = new WebSocket(address as string);
  await new Promise((resolve) => socket.addEventListener("open", resolve));
  const waiting = new Map<number, (answer: Answer) => void>();
  socket.addEventListener("message", ({ data }) => {
    const answer = JSON.parse(data) as Answer;
    waiting.get(answer.id)?.(answer);
  });
  let last = 0;
  const ask = (method: string, params: object = {}) =>
    new Promise<Answer["result"]>((resolve, reject) => {
      const id = ++last;
      waiting.set(id, ({ result, error }) => (error ? reject(new Error(error.message)) : resolve(result)));
      socket.send(JSON.stringify({ id, method, params }));
    });
  /** The number of listeners of all objects with a prototype. */
  const count = async (prototype: string) => {
    const { result } = await ask("Runtime.evaluate", { expression: prototype, objectGroup: GROUP });
    const { objects } = await ask("Runtime.queryObjects", { prototypeObjectId: result.objectId, objectGroup: GROUP });
    const counted = await ask("Runtime.callFunctionOn", {
      objectId: objects.objectId,
      functionDeclaration: COUNT,
      returnByValue: true,
    });
    await ask("Runtime.releaseObjectGroup", { objectGroup: GROUP }); // otherwise the inspector keeps them
    return counted.result.value;
  };
  return { ask, count, close: () => socket.close() };
}

const GROUP = "counted";

type Remote = { objectId: string; value: number };
type Answer = { id: number; result: { result: Remote; objects: Remote }; error?: { message: string } };
