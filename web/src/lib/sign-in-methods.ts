import type { Client } from "@gatehouse/client";
import { session } from "./session.svelte.ts";

type Methods = Awaited<ReturnType<Client["auth"]["listSignInMethods"]>>;
let methods: Promise<Methods> | undefined;

/** The ways to sign in besides the password. Requested only once. */
export function signInMethods(): Promise<Methods> {
  methods ??= session.api.auth.listSignInMethods().catch((thrown) => {
    methods = undefined;
    throw thrown;
  });
  return methods;
}
