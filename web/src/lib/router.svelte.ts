/** The base path of the app, with a trailing slash. A proxy may serve the app below a path. */
export const basePath = new URL(document.baseURI).pathname.replace(/[^/]*$/, "");

/** Current paths of places that earlier versions had after `#` in the URL. */
const FORMER: Record<string, string> = {
  "/profile": "/account/profile",
  "/security": "/account/security",
  "/sessions": "/account/sessions",
  "/usage": "/account/usage",
  "/data": "/account/data",
  "/admin/audit": "/admin/audit-log",
};

const pathOf = ({ pathname }: Location) => `/${pathname.slice(basePath.length)}`;

/**
 * The current place in the app: the path below the base path. Links in pages are relative to the
 * base.
 */
class Route {
  #location = $state.raw({ path: pathOf(location), search: location.search });
  /** The path, such as `/admin/users`. */
  readonly path = $derived(this.#location.path);
  readonly query = $derived(new URLSearchParams(this.#location.search));

  constructor() {
    addEventListener("popstate", () => this.#arrive());
    addEventListener("click", (event) => this.#follow(event));
  }

  /** Opens another place. `replace` replaces the current history entry. */
  open(path: string, { replace = false } = {}): void {
    const url = basePath + path.slice(1);
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.#arrive();
  }

  #arrive(): void {
    this.#location = { path: pathOf(location), search: location.search };
  }

  /** Follows links between places without loading a page. */
  #follow(event: MouseEvent): void {
    const link = event.target instanceof Element && event.target.closest("a");
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey);
    if (!link || !isPlain || event.defaultPrevented || event.altKey) return;
    if (link.target || link.hasAttribute("download") || link.rel.includes("external")) return;
    const { origin, pathname, search } = new URL(link.href);
    if (origin !== location.origin || !pathname.startsWith(basePath)) return;
    event.preventDefault();
    this.open(`/${pathname.slice(basePath.length)}${search}`);
  }
}

export const route = new Route();
addEventListener("hashchange", () => location.reload()); // another mailed link was opened in this tab

const [, formerPath, formerQuery = ""] = /^#(\/[^?]*)(\?.*)?$/.exec(location.hash) ?? [];
if (formerPath) route.open((FORMER[formerPath] ?? formerPath) + formerQuery, { replace: true });

/** The parameters in the fragment of the URL, which is not sent to servers and not logged. */
const secrets = new URLSearchParams(location.hash.slice(1));
if (secrets.size > 0 && !formerPath) route.open(route.path + location.search, { replace: true }); // removes them from the history

/** The response of a sign-in provider; empty without one. */
export const providerAnswer: Record<string, string> = Object.fromEntries(secrets);
/** The token of the e-mail link that opened the app; empty without one. */
export const mailToken = secrets.get("token") ?? "";
/** The token of the link that creates the first administrator. */
export const setupToken = secrets.get("setup") ?? undefined;
