import { prepareNode } from "../services/platform/process/node.ts";

/** Entry point of `npm start`. Everything else is loaded once Node is prepared. */
prepareNode();
await import("./process.ts");
