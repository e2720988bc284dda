/** Path of an API, split into the parts that base URLs may contain. */
export type ApiPath = {
  /** The version of the API, such as `v1`. */
  version: string;
  /**
   * Whether a base URL with a path is taken to contain the version, as by OpenAI's clients. Base
   * URLs of compatible servers end with `/v4`, `/inference` or `/v1beta/openai`.
   */
  isVersionInBase: boolean;
  /** Path after the version, including the query. */
  resource: string;
};

/** A path segment that names a version. */
const VERSION = /^v\d+[a-z\d]*$/;

/**
 * Joins the path of a base URL and the path of an API. Base URLs are written with and without the
 * version, with trailing slashes, and with the path of a request. Segments that the base ends with
 * are not repeated, and a version in the base takes precedence.
 * @param base path of the base URL
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
 * Counts the segments of a resource that the base ends with: all of them, or those after a version.
 * @returns undefined if the base ends with neither
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
