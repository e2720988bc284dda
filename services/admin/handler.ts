import type { ServiceImpl } from "@connectrpc/connect";
import type { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";

/** Messages in, messages out; every decision is made by an operation. */
export const adminHandler: Partial<ServiceImpl<typeof AdminService>> = {};
