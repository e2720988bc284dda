import { route } from "./router.svelte.ts";
import { given } from "./text.ts";

/**
 * The filters of a list. They are part of the URL, so that links and the back button restore
 * them.
 */
export function filtersOf<Name extends string>(...names: Name[]) {
  const { path } = route;
  const values = $derived(
    Object.fromEntries(names.map((name) => [name, route.query.get(name) ?? ""])),
  );
  return {
    /** The filters that are not empty. */
    get values() {
      return given(values) as Partial<Record<Name, string>>;
    },
    /** Takes back all of them; undefined if there are none. */
    get clear() {
      const isFiltered = Object.keys(given(values)).length > 0;
      return isFiltered ? () => route.open(path, { replace: true }) : undefined;
    },
    set(name: Name, value: string) {
      const query = new URLSearchParams(
        given({ ...values, [name]: value }) as Record<string, string>,
      );
      route.open(query.size > 0 ? `${path}?${query}` : path, { replace: true });
    },
  };
}
