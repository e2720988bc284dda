import type { SecondFactor } from "../mfa/second-factor.ts";
import type { Violation } from "../platform/rpc/errors.ts";

const TOTP_CODE = /^\d{6}$/;
/**
 * Also accepts letters that never occur in codes: such a code is wrong, but has the form of one.
 */
const BACKUP_CODE = /^[a-z\d]{8}$/i;

/**
 * Checks the form of a second factor, as part of the validation of a request: what cannot be a code
 * is not a guess and is not counted. The proto rejects two factors at once.
 */
export function checkSecondFactor({ code, backupCode }: SecondFactor): Violation[] {
  if (code !== undefined && backupCode !== undefined) return [];
  const faults = { code: faultInCode(code), backupCode: faultInBackupCode(backupCode) };
  return Object.entries(faults).flatMap(([field, message]) =>
    message ? [{ field, message }] : [],
  );
}

/** Checks the form of an e-mail code, likewise. */
export function checkCode({ code }: Pick<SecondFactor, "code">): Violation[] {
  const message = faultInCode(code);
  return message ? [{ field: "code", message }] : [];
}

function faultInCode(code: string | undefined): string | undefined {
  if (code === undefined || TOTP_CODE.test(code)) return undefined;
  return "must be six digits";
}

function faultInBackupCode(code: string | undefined): string | undefined {
  if (code === undefined || BACKUP_CODE.test(code)) return undefined;
  return "must be eight letters and digits, such as ABCD-2345";
}
