/** Sends steady calls in a separate process, and prints how they went as JSON. */
import { callSteadily, type SteadyCalls } from "./steady-calls.ts";

const calls = JSON.parse(process.argv[2] ?? "") as SteadyCalls;
process.stdout.write(JSON.stringify(await callSteadily(calls)), () => process.exit(0));
