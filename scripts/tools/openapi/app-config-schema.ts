import { Reason } from "../../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Schema } from "./components.ts";
import { json, property } from "./components.ts";
import { references, responsesOf } from "./responses.ts";

const object = (properties: Record<string, Schema>, optional: Record<string, Schema> = {}) => ({
  type: "object",
  properties: { ...properties, ...optional },
  required: Object.keys(properties),
});
const text = { type: "string" };
const named = (name: string, description: string) => property(name, text, description);

const accent = {
  ...object({
    light: named("light", "Shade for light backgrounds, such as `#4f55d2`."),
    dark: named("dark", "Shade for dark backgrounds."),
  }),
  description: "The accent colour of the installation, in readable shades.",
};
const links = {
  ...object(
    {},
    {
      terms: named("terms", "Terms of use."),
      privacy: named("privacy", "Privacy policy."),
      support: named("support", "Help for users."),
    },
  ),
  description: "Pages of the operator.",
};
const listOf = (values: string[], description: string) => ({
  type: "array",
  items: { type: "string", enum: values },
  description,
  examples: [values],
});

const schema = object(
  {
    name: named("appName", "Name of the installation."),
    accent,
    links,
    signIn: listOf(["password", "passkey"], "Ways to sign in."),
    registration: property("registration", { type: "boolean" }, "Whether anybody may register."),
    languages: listOf(["en", "de"], "Languages of the web app."),
  },
  { logo: named("logo", "URL of the logo, relative to the base URL. Absent if there is none.") },
);

/**
 * The route of the app configuration, which no proto describes.
 * @param other the response of any other status
 */
export const appConfigPaths = (other: object) => {
  const headers = references(["X-Request-Id"]);
  const malformed = responsesOf([Reason.MALFORMED_REQUEST]).map(([code, answer]) => [
    code,
    { ...answer, headers },
  ]);
  return {
    "/app-config": {
      get: {
        operationId: "getAppConfig",
        summary: "App configuration",
        description:
          "Name, logo, colour and links of the installation, and the ways to sign in. Requires no token. May be cached for five minutes.",
        tags: ["App"],
        security: [],
        responses: {
          200: { ...json("The configuration.", schema), headers },
          ...Object.fromEntries(malformed),
          default: other,
        },
      },
    },
  };
};
