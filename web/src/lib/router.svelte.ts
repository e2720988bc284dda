/** The current route: the part of the URL after `#`, so that it never collides with an API path. */
class Route {
  #hash = $state(location.hash);
  /** The path, such as `/admin/users`. */
  readonly path = $derived(this.#hash.slice(1).split("?")[0] || "/");
  readonly query = $derived(new URLSearchParams(this.#hash.split("?")[1]));

  constructor() {
    addEventListener("hashchange", () => {
      this.#hash = location.hash;
    });
  }

  /** Opens another route. With `replace`, the current one is removed from the history. */
  open(path: string, { replace = false } = {}): void {
    if (replace) history.replaceState(null, "", `#${path}`);
    else history.pushState(null, "", `#${path}`);
    this.#hash = location.hash;
  }
}

export const route = new Route();

const linkToken = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const linkPath = /\/(verify-email|reset-password)$/.exec(location.pathname)?.[0];
if (linkPath) {
  history.replaceState(null, "", `.${location.search}`); // keeps the token out of the history
  route.open(linkPath, { replace: true });
}

/** The token of the e-mail link that opened the app; empty if there is none. */
export const mailToken = linkPath ? linkToken : "";
