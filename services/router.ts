import type { DescMessage } from "@bufbuild/protobuf";
import type { ConnectRouter, Interceptor } from "@connectrpc/connect";
import {
  AdminService,
  InviteUserRequestSchema,
  type UpdateUserRequest,
  UpdateUserRequestSchema,
} from "../gen/gatehouse/account/v1/admin_service_pb.ts";
import {
  AuthService,
  ConfirmRequestSchema,
  CreateBackupCodesRequestSchema,
  DisableTotpRequestSchema,
  DisownRequestSchema,
  LoginRequestSchema,
  RegisterRequestSchema,
  RequestEmailCodeRequestSchema,
  type VerifyEmailCodeRequest,
  VerifyEmailCodeRequestSchema,
  VerifyMfaRequestSchema,
} from "../gen/gatehouse/account/v1/auth_service_pb.ts";
import {
  ChangeEmailRequestSchema,
  UserService,
} from "../gen/gatehouse/account/v1/user_service_pb.ts";
import {
  AIService,
  ChatRequestSchema,
  CompleteRequestSchema,
  CreateEmbeddingsRequestSchema,
  StreamChatRequestSchema,
} from "../gen/gatehouse/ai/v1/ai_service_pb.ts";
import { checkEmail } from "./accounts/email-address.ts";
import { checkRegistration } from "./accounts/password-rules.ts";
import { checkMetadata } from "./accounts/user-metadata.ts";
import { adminHandler } from "./admin/handler.ts";
import { checkConversation } from "./ai/chat.ts";
import { checkCompletion } from "./ai/check-completion.ts";
import { checkEmbeddings } from "./ai/create-embeddings.ts";
import { aiHandler } from "./ai/handler.ts";
import { checkCode, checkSecondFactor } from "./auth/factor-form.ts";
import { authHandler } from "./auth/handler.ts";
import { type AppContext, type Call, callOf } from "./call.ts";
import { authorize } from "./interceptors/authorize.ts";
import { limitAccounts } from "./interceptors/limit-accounts.ts";
import { observeCalls } from "./interceptors/observe.ts";
import type { RateLimiter } from "./platform/gate/rate-limiter.ts";
import type { Violation } from "./platform/rpc/errors.ts";
import { validate } from "./platform/rpc/validation.ts";
import { userOf } from "./principal.ts";
import { userHandler } from "./user/handler.ts";

/** Whether a caller has a password, or must choose one: not where codes by e-mail sign in. */
const hasPassword = ({ principal, config }: Call): boolean =>
  userOf(principal)?.hasPassword ?? config.emailSignIn === "off";

/** Adds every service to a router. Methods without a handler return NOT_IMPLEMENTED. */
export function serve(router: ConnectRouter): void {
  router.service(AuthService, authHandler);
  router.service(UserService, userHandler);
  router.service(AdminService, adminHandler);
  router.service(AIService, aiHandler);
}

/** The interceptors of every call, outermost first. */
export function interceptors(
  context: AppContext,
  rateLimiter: RateLimiter | undefined,
  internalSecret: string | undefined,
): Interceptor[] {
  const checkChat = checkConversation(context.ai.catalogue);
  const checks = new Map<DescMessage, (message: never) => Violation[]>([
    [RegisterRequestSchema, checkRegistration(context)],
    [LoginRequestSchema, checkEmail],
    [DisownRequestSchema, checkEmail],
    [VerifyMfaRequestSchema, checkSecondFactor],
    [RequestEmailCodeRequestSchema, checkEmail],
    [
      VerifyEmailCodeRequestSchema,
      (proof: VerifyEmailCodeRequest) => [...checkEmail(proof), ...checkCode(proof)],
    ],
    [ConfirmRequestSchema, checkSecondFactor],
    [DisableTotpRequestSchema, checkSecondFactor],
    [CreateBackupCodesRequestSchema, checkSecondFactor],
    [
      ChangeEmailRequestSchema,
      ({ newEmail }: { newEmail: string }) => checkEmail({ email: newEmail }, "newEmail"),
    ],
    [
      UpdateUserRequestSchema,
      (changes: UpdateUserRequest) => [...checkEmail(changes), ...checkMetadata(changes)],
    ],
    [InviteUserRequestSchema, checkEmail],
    [ChatRequestSchema, checkChat],
    [StreamChatRequestSchema, checkChat],
    [CompleteRequestSchema, checkCompletion],
    [CreateEmbeddingsRequestSchema, checkEmbeddings],
  ]);
  return [
    observeCalls(context, internalSecret),
    authorize,
    validate(checks, (values) => hasPassword(callOf({ values }))),
    limitAccounts(rateLimiter),
  ];
}
