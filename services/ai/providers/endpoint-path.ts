/** The path of an API, in the parts that base URLs may contain. */
export type ApiPath = {
  /** The version of the API, such as `v1`. */
  version: string;
  /**
   * Whether a base URL with a path contains the version if there is one, as for OpenAI's clients.
   * Their base URLs of other servers end with `/v4`, `/inference` or `/v1beta/openai`.
   */
  isVersionInBase: boolean;
  /** What follows the version, with the query. */
  resource: string;
};

/** A segment of a path that names a version. */
const VERSION = /^v\d+[a-z\d]*$/;

/**
 * Joins the path of a base URL and that of an API. People write base URLs with and without the
 * version, with slashes at the end, and with the path of a request. What the base ends with is not
 * repeated, and its version stands.
 * @param base the path of the base URL
 */
export function endpointPath(base: string, api: ApiPath): string {
  const given = base.split("/").filter((segment) => segment !== "");
  const resource = api.resource.split("/");
  const repeated = repeatedIn(given, resource);
  const isVersioned = repeated !== undefined || (api.isVersionInBase && given.length > 0);
  const version = isVersioned ? [] : [api.version];
  return `/${[...given, ...version, ...resource.slice(repeated)].join("/")}`;
}

/**
 * How many segments of a resource the base ends with: all of them, or as many as follow a version.
 * undefined if the base ends with neither.
 */
function repeatedIn(given: string[], resource: string[]): number | undefined {
  for (let count = resource.length; count >= 0; count--) {
    const start = given.length - count;
    const isRepeated = resource
      .slice(0, count)
      .every((part, index) => given[start + index] === part);
    const isWhole = count === resource.length;
    if (isRepeated && (isWhole || VERSION.test(given[start - 1] ?? ""))) return count;
  }
  return undefined;
}
