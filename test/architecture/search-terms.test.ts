import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** The standard term of a mechanism, and the files that a search for it must find. */
const FILES: Record<string, string[]> = {
  "body limit": ["services/platform/admission.ts"],
  overload: ["services/platform/admission.ts"],
  "idle timeout": ["services/grpc/http2-server.ts", "services/ai/providers/send.ts"],
  "refresh rotation": ["services/auth/refresh.ts", "services/store/sign-in.ts"],
  "MFA token": ["services/auth/login.ts"],
  "mail retry": ["services/mail/worker.ts"],
  "rate-limit key": ["services/platform/rate-limiter.ts"],
  "SSE heartbeat": ["gateway/transcode/sse.ts"],
};

test.each(Object.entries(FILES))("Glossary: a search for the standard term %s finds the file", (term, files) => {
  const isNamed = (path: string) => basename(path, ".ts") === term.toLowerCase().replaceAll(" ", "-");
  const commentsOf = (path: string) =>
    readFileSync(join(root, path), "utf8")
      .split("\n")
      .filter((line) => /^\s*(?:\/\*\*|\*|\/\/)/.test(line))
      .join("\n")
      .toLowerCase();
  expect(files.filter((path) => !isNamed(path) && !commentsOf(path).includes(term.toLowerCase()))).toEqual([]);
});
