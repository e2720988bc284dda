import { GatehouseError } from "@gatehouse/client";

/** Asks users to confirm their identity. The dialog is part of the frame. */
class Confirmation {
  #settle = $state.raw<(isConfirmed: boolean) => void>();
  readonly isAsked = $derived(this.#settle !== undefined);

  /** @returns whether the session has been confirmed */
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
 * Does work that requires a recent sign-in. If the sign-in is too old, asks for a confirmation and
 * tries again.
 * @throws GatehouseError REAUTHENTICATION_REQUIRED if the user does not confirm
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
