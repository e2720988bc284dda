import { expect, test } from "vitest";
import { deviceOf } from "../../../web/src/lib/agent.ts";
import { csvOf } from "../../../web/src/lib/csv.ts";

test("CSV: quotes separators, and prevents formulas in spreadsheets", () => {
  const rows = [
    ["name", "email"],
    ['Ann "A", B', "=1+1"],
    ["two\nlines", "@sum"],
  ];
  expect(csvOf(rows)).toBe('name,email\r\n"Ann ""A"", B",\'=1+1\r\n"two\nlines",\'@sum');
});

test.each([
  [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0 Safari/537.36",
    "Chrome on Linux",
  ],
  ["Mozilla/5.0 (Windows NT 10.0; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Windows"],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) Version/19 Safari/604.1",
    "Safari on iOS",
  ],
  ["curl/8.5.0", "curl"],
  ["", ""],
])("a User-Agent is shown as browser and system: %s", (agent, device) => {
  expect(deviceOf(agent)).toBe(device);
});
