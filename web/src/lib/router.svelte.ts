/** The path of the app, with a slash at its end: a proxy may serve it below others. */
export const basePath = new URL(document.baseURI).pathname.replace(/[^/]*$/, "");

/** Where places of earlier versions are, which followed `#` in the address. */
const FORMER: Record<string, string> = {
  "/profile": "/account/profile",
  "/security": "/account/security",
  "/sessions": "/account/sessions",
  "/usage": "/account/usage",
  "/data": "/account/data",
  "/admin/audit": "/admin/audit-log",
};

const pathOf = ({ pathname }: Location) => `/${pathname.slice(basePath.length)}`;

/** The place in the app: the path behind that of the app. Links of pages are relative to its base. */
class Route {
  #location = $state.raw({ path: pathOf(location), search: location.search });
  /** Such as `/admin/users`. */
  readonly path = $derived(this.#location.path);
  readonly query = $derived(new URLSearchParams(this.#location.search));

  constructor() {
    addEventListener("popstate", () => this.#arrive());
    addEventListener("click", (event) => this.#follow(event));
  }

  /** Opens another place. `replace` leaves no step back to the present one. */
  open(path: string, { replace = false } = {}): void {
    const url = basePath + path.slice(1);
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    this.#arrive();
  }

  #arrive(): void {
    this.#location = { path: pathOf(location), search: location.search };
  }

  /** Links between places load no page. */
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
addEventListener("hashchange", () => location.reload()); // another mailed link, opened in this tab

const [, formerPath, formerQuery = ""] = /^#(\/[^?]*)(\?.*)?$/.exec(location.hash) ?? [];
if (formerPath) route.open((FORMER[formerPath] ?? formerPath) + formerQuery, { replace: true });

/** What the fragment of the address says: fragments reach no server and no log. */
const secrets = new URLSearchParams(location.hash.slice(1));
if (secrets.size > 0 && !formerPath) route.open(route.path + location.search, { replace: true }); // they stay in no history

/** What a sign-in provider has answered; empty without an answer. */
export const providerAnswer: Record<string, string> = Object.fromEntries(secrets);
/** The token of the e-mail link that opened the app; empty without one. */
export const mailToken = secrets.get("token") ?? "";
/** The token of the link that makes the first administrator. */
export const setupToken = secrets.get("setup") ?? undefined;
