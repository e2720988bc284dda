import { GatehouseError } from "@gatehouse/client";

/** Asks the person to confirm that it is them. Its dialog is in the frame of the pages. */
class Confirmation {
  #settle = $state.raw<(isConfirmed: boolean) => void>();
  readonly isAsked = $derived(this.#settle !== undefined);

  /** @returns whether the session is confirmed now */
  ask(): Promise<boolean> {
    this.end(false);
    return new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  end(isConfirmed: boolean): void {
    this.#settle?.(isConfirmed);
    this.#settle = undefined;
  }
}

export const confirmation = new Confirmation();

/**
 * Does what needs a recent sign-in. Where it is too old, the person confirms first, and the work is done then.
 * @throws GatehouseError REAUTHENTICATION_REQUIRED if the person does not confirm
 */
export async function confirmed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const isOld = thrown instanceof GatehouseError && thrown.code === "REAUTHENTICATION_REQUIRED";
    if (!isOld || !(await confirmation.ask())) throw thrown;
    return work();
  }
}
