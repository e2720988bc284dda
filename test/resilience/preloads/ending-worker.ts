import cluster from "node:cluster";

/** Loaded before a process, whose second worker and all later ones then end as they start. */
const EXIT_CODE = 7;
if ((cluster.worker?.id ?? 0) > 1) process.exit(EXIT_CODE);
