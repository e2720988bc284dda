import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import { lockCaller } from "../accounts/guards.ts";
import { recordAudit } from "../audit/record.ts";
import type { SessionCall } from "../call.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { deleteDevice } from "../store/devices.ts";
import { canonicalId } from "../store/ids.ts";

/**
 * Removes a device of the caller. It counts as new until it signs in again.
 * @throws ServiceError NOT_FOUND, UNAUTHENTICATED
 */
export async function forgetDevice(call: SessionCall, deviceId: string): Promise<void> {
  const { user } = call.principal;
  const id = canonicalId(deviceId);
  await call.em.transactional(async () => {
    await lockCaller(call);
    if (!(await deleteDevice(call, user.id, id)))
      throw new ServiceError(Reason.NOT_FOUND, "There is no such device.");
    const details = { deviceId: id };
    await recordAudit(call, "user.device_forgotten", { userId: user.id, details });
  });
}
