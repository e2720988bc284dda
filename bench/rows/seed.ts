import { parseArgs } from "node:util";
import { seed } from "../harness/seed.ts";

const { values } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string" },
    users: { type: "string", default: "1000000" },
    events: { type: "string", default: "5000000" },
    emails: { type: "string", default: "1000000" },
    calls: { type: "string", default: "0" },
    skew: { type: "string", default: "flat" },
  },
});
if (!values.url) throw new Error("--url is missing");
if (values.skew !== "flat" && values.skew !== "zipf") throw new Error("--skew is flat or zipf");
await seed(
  values.url,
  {
    users: Number(values.users),
    events: Number(values.events),
    emails: Number(values.emails),
    calls: Number(values.calls),
  },
  values.skew,
);
