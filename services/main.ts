import { prepareNode } from "./platform/process/node.ts";

/** Entry point of `npm run start:services`. Everything else is loaded once Node is prepared. */
prepareNode();
await import("./process.ts");
