import { AdminService } from "../../gen/gatehouse/account/v1/admin_service_pb.ts";
import { AuthService } from "../../gen/gatehouse/account/v1/auth_service_pb.ts";
import { UserService } from "../../gen/gatehouse/account/v1/user_service_pb.ts";
import { AIService } from "../../gen/gatehouse/ai/v1/ai_service_pb.ts";

/** The services of the product. */
export const services = [AuthService, UserService, AdminService, AIService] as const;
