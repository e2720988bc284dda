import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Config } from "../platform/config/config.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import type { EmailAddress } from "./email-address.ts";

type Rules = Pick<Config, "registration" | "signUpDomains">;

/**
 * Whether people can create accounts without an invitation, even if only with addresses of some
 * domains.
 */
export const isSignUpOpen = ({ registration }: Pick<Config, "registration">): boolean =>
  registration === "open";

/**
 * Checks that the configuration allows the owner of an address to create an account.
 * @throws ServiceError SIGN_UP_CLOSED
 */
export function assertMaySignUp(rules: Rules, { canonical }: EmailAddress): void {
  if (!isSignUpOpen(rules))
    throw new ServiceError(
      Reason.SIGN_UP_CLOSED,
      "Accounts are created by invitation only. Please ask an administrator.",
    );
  const [, domain = ""] = canonical.split(/@(?=[^@]*$)/);
  if (rules.signUpDomains.length === 0 || rules.signUpDomains.includes(domain)) return;
  throw new ServiceError(
    Reason.SIGN_UP_CLOSED,
    "Addresses of this domain can't be registered here.",
  );
}
