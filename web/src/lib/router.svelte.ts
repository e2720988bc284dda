/** The place in the app: what follows `#` in the address, so that no path of the API is taken. */
class Route {
  #hash = $state(location.hash);
  /** Such as `/admin/users`. */
  readonly path = $derived(this.#hash.slice(1).split("?")[0] || "/");
  readonly query = $derived(new URLSearchParams(this.#hash.split("?")[1]));

  constructor() {
    addEventListener("hashchange", () => {
      this.#hash = location.hash;
    });
  }

  /** Opens another place. `replace` leaves no step back to the present one. */
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
  history.replaceState(null, "", `.${location.search}`); // the token stays in no history
  route.open(linkPath, { replace: true });
}

/** The token of the e-mail link that opened the app; empty without one. */
export const mailToken = linkPath ? linkToken : "";
