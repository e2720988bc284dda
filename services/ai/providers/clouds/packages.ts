import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import type { CloudName } from "../../catalogue-clouds.ts";

/** A package, such as `@scope/name`. */
type PackageName = string;

/** The packages that a provider in a cloud needs. */
export function packagesFor(cloud: CloudName, dialect: string, hasKey: boolean): PackageName[] {
  switch (cloud) {
    case "azure":
      return ["openai", ...(hasKey ? [] : ["@azure/identity"])];
    case "bedrock": {
      const sdk = dialect === "openai" ? "openai" : "@anthropic-ai/bedrock-sdk";
      const chain = hasKey ? [] : ["@aws-sdk/credential-provider-node"];
      const signing = dialect === "openai" ? ["@smithy/signature-v4", "@smithy/hash-node"] : [];
      return [sdk, ...chain, ...(hasKey ? [] : signing)];
    }
    case "vertex": {
      const sdk = dialect === "anthropic" ? ["@anthropic-ai/vertex-sdk"] : [];
      return [...sdk, "google-auth-library"];
    }
  }
}

/** Whether a package is installed. It is not loaded. */
function isInstalled(name: PackageName): boolean {
  try {
    return findPackageJSON(name, import.meta.url) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Says how to install missing packages, if there are any. They are not dependencies, because those
 * of a cloud that nobody uses would make up most of the size of a deployment.
 */
export function missingPackages(
  names: readonly PackageName[],
  isPresent: (name: PackageName) => boolean = isInstalled,
): string | undefined {
  const missing = [...new Set(names)].filter((name) => !isPresent(name));
  if (missing.length === 0) return undefined;
  const { peerDependencies } = JSON.parse(
    readFileSync(new URL("../../../../package.json", import.meta.url), "utf8"),
  ) as { peerDependencies: Record<PackageName, string> };
  const versions = missing.map((name) => `${name}@${peerDependencies[name]}`);
  // Without --save-prod npm would omit what is also a development dependency.
  return `packages are missing. Run: npm install --no-save --save-prod --omit=dev ${versions.join(" ")}`;
}
