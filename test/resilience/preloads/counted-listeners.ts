import { Session } from "node:inspector/promises";
import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * Loaded before a process, which at SIGUSR2 collects its garbage and logs how many listeners the
 * remaining objects have.
 */

const PROTOTYPES = [
  "process.getBuiltinModule('node:events').EventEmitter.prototype",
  "AbortSignal.prototype",
];
/** Counts the listeners of emitters, or those of abort signals. */
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
const objectGroup = "counted";
const session = new Session();

/** The number of listeners of all objects with a prototype. */
async function listenersOf(expression: string): Promise<number> {
  const { result } = await session.post("Runtime.evaluate", { expression, objectGroup });
  const query = { prototypeObjectId: result.objectId as string, objectGroup };
  const { objects } = await session.post("Runtime.queryObjects", query);
  const counted = await session.post("Runtime.callFunctionOn", {
    objectId: objects.objectId,
    functionDeclaration: COUNT,
    returnByValue: true,
  });
  await session.post("Runtime.releaseObjectGroup", { objectGroup }); // otherwise the inspector keeps them
  return counted.result.value;
}

process.on("SIGUSR2", async () => {
  session.connect();
  // objects of weak references and finalizers are collected some rounds later
  for (let round = 0; round < 5; round++)
    await session.post("HeapProfiler.collectGarbage").then(() => nextTurn());
  let listeners = 0;
  for (const prototype of PROTOTYPES) listeners += await listenersOf(prototype);
  session.disconnect();
  process.stdout.write(`listeners: ${listeners}\n`);
});
