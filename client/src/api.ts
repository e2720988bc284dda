// Generated from the OpenAPI document by `npm run generate`. Do not edit.

/** Options of every call. */
export type CallOptions = { signal?: AbortSignal | undefined };
/**
 * The request of a route. `accepts` is a status other than 2xx whose body is a result; `isText`
 * means that the result is text.
 */
export type Sent = { query?: object | undefined; body?: object | undefined; accepts?: number; isText?: boolean };
/** Calls a route. */
export type Call = <T>(method: string, path: string, sent: Sent, options: CallOptions | undefined) => Promise<T>;
/** Calls a route whose response is an event stream. */
export type Stream = (path: string, body: object, options: CallOptions | undefined) => AsyncGenerator<string, void>;

/** Routes without a token that set a cookie. */
export const COOKIE_SETTERS: readonly string[] = ["/auth/login", "/auth/verify-mfa", "/auth/verify-passkey", "/auth/start-external", "/auth/finish-external", "/auth/email-code", "/auth/verify-email-code"];

/** Methods that are refused with `IMPERSONATING` while an administrator acts as a user. */
export const FORBIDDEN_IMPERSONATING = [
  "setupTotp",
  "connectIdentity",
  "disableTotp",
  "createBackupCodes",
  "confirm",
  "updateProfile",
  "changePassword",
  "changeEmail",
  "getSignInMethods",
  "setPassword",
  "removePassword",
  "requireSecondFactor",
  "createPasskeyOptions",
  "createPasskey",
  "listPasskeys",
  "renamePasskey",
  "deletePasskey",
  "listIdentities",
  "deleteIdentity",
  "listDevices",
  "deleteDevice",
  "revokeOtherSessions",
  "revokeSession",
  "createApiKey",
  "revokeApiKey",
  "deleteAccount",
  "exportData",
  "getOverview",
  "listUsers",
  "inviteUser",
  "getUser",
  "updateUser",
  "deleteUser",
  "resetAccess",
  "listUserSessions",
  "revokeUserSessions",
  "listUserIdentities",
  "getUserSignInMethods",
  "listAuditLogs",
  "listEmailLogs",
  "previewEmail",
  "retryEmail",
  "impersonate",
  "listAllApiKeys",
  "updateApiKey",
  "createServiceAccount",
  "createServiceAccountKey",
  "listWebhooks",
  "createWebhook",
  "updateWebhook",
  "deleteWebhook",
  "rotateWebhookSecret",
  "testWebhook",
  "replayWebhook",
  "listWebhookDeliveries",
  "retryWebhookDelivery",
  "listAllUsage",
  "exportUsage",
  "listProviderStates",
  "sumUsage",
  "listBudgets",
  "setBudget",
  "deleteBudget",
  "adjustBudget",
] as const;

/** The body of every error under `/v1/messages`, as Anthropic's clients read it. */
export type AnthropicError = {
  /** Always `error`. */
  type: string;
  /** The error. */
  error: {
    /** Kind of error, by its status. */
    type: string;
    /** Human-readable message. */
    message: string;
  };
};

/** The user who signed in. */
export type SignedInUser = {
  /** UUIDv7. */
  id: string;
  /** E-mail address as its owner entered it, without surrounding whitespace and invisible characters. */
  email: string;
  /** Display name. */
  name: string;
  /** `user` or `admin`. */
  role: "user" | "admin";
};

/** The user who signed in with a second factor. */
export type VerifiedUser = {
  /** UUIDv7. */
  id: string;
  /** E-mail address as its owner entered it, without surrounding whitespace and invisible characters. */
  email: string;
};

/** Options of a WebAuthn call, for `PublicKeyCredential.parseRequestOptionsFromJSON` or `parseCreationOptionsFromJSON`. Members that belong to the other call are absent or empty. */
export type PasskeyOptions = {
  /** Challenge in base64url. It is valid for 5 minutes and for one use. */
  challenge: string;
  /** Time in milliseconds that the browser waits for the user. */
  timeout: number;
  /** Id of the relying party, a domain. Present for a use. */
  rpId?: string | undefined;
  /** Passkeys that may be used. If the list is empty, any discoverable passkey may be used. */
  allowCredentials: PasskeyDescriptor[];
  /** Verification of the user: `required`. Present for a use. */
  userVerification?: string | undefined;
  /** Relying party. Present for a new passkey, as are all members below. */
  rp?: PasskeyRelyingParty | undefined;
  /** Owner of the new passkey. */
  user?: PasskeyUser | undefined;
  /** Accepted algorithms, the preferred one first. */
  pubKeyCredParams: PasskeyAlgorithm[];
  /** Existing passkeys of the user. Their authenticators do not create a second one. */
  excludeCredentials: PasskeyDescriptor[];
  /** Requirements for the authenticator. */
  authenticatorSelection?: PasskeySelection | undefined;
  /** Attestation: `none`. */
  attestation?: string | undefined;
};

/** A new passkey, or the result of using one, as `toJSON` of a browser's `PublicKeyCredential` returns it. Other members are ignored. */
export type PasskeyCredential = {
  /** Credential id in base64url. */
  id: string;
  /** The same credential id. */
  rawId: string;
  /** `public-key`. */
  type: "public-key";
  /** Response of the authenticator. */
  response: PasskeyResponse;
};

/** An account at a sign-in provider that is connected to a user. */
export type Identity = {
  /** UUIDv7. */
  id: string;
  /** Id of the provider, such as `google`. */
  provider: string;
  /** E-mail address that the provider reported last. Absent if it reported none. */
  email?: string | undefined;
  /** Time at which it was connected. */
  createdAt: string;
  /** Time of its last use. Absent before the first one. */
  lastUsedAt?: string | undefined;
};

/** A provider that users can sign in with. */
export type SignInProvider = {
  /** Id, such as `google`. */
  id: string;
  /** Display name. */
  name: string;
};

/** An Ed25519 public key (RFC 8037). */
export type PublicKey = {
  /** Key id, as in the header of a token. */
  kid: string;
  /** Key type: `OKP`. */
  kty: string;
  /** Curve: `Ed25519`. */
  crv: string;
  /** The public key in base64url. */
  x: string;
  /** Signature algorithm: `EdDSA`. */
  alg: string;
  /** Usage: `sig`. */
  use: string;
};

/** An account. */
export type User = {
  /** UUIDv7. */
  id: string;
  /** E-mail address as its owner entered it, without surrounding whitespace and invisible characters. */
  email: string;
  /** Display name, 1 to 100 characters. */
  name: string;
  /** Free text, up to 1,000 characters. Absent until first set. */
  bio?: string | undefined;
  /** `user` or `admin`. */
  role: "user" | "admin";
  /** True after the owner has verified the e-mail address. */
  emailVerified: boolean;
  /** True when login requires a second factor. SetupTotp sets it immediately; see `mfaConfirmed`. */
  mfaEnabled: boolean;
  /** Time of registration. */
  createdAt: string;
  /** Time of the last change. */
  updatedAt: string;
  /** Time at which the password reaches its maximum age. Absent when passwords do not expire. */
  passwordExpiresAt?: string | undefined;
  /** True once a code from the authenticator has been accepted by VerifyMfa or CreateBackupCodes. Until then, SetupTotp can be repeated and a password reset removes the factor. Absent when `mfaEnabled` is false. */
  mfaConfirmed?: boolean | undefined;
  /** True when the user requires a second factor at every sign-in. Absent otherwise. */
  secondFactorRequired?: boolean | undefined;
  /** Language of e-mails to the user, a BCP 47 tag. Absent until first set. E-mails are in English if it is absent, or if there are no texts in this language. */
  locale?: string | undefined;
  /** JSON object that administrators keep about the user (UpdateUser). Absent if there is none. */
  metadata?: Record<string, unknown> | undefined;
};

/** The fields of a user that UpdateProfile returns. */
export type ProfileUser = {
  /** UUIDv7. */
  id: string;
  /** Display name. */
  name: string;
  /** Free text. Empty if never set. */
  bio: string;
  /** Language of the user, a BCP 47 tag. Absent if never set. */
  locale?: string | undefined;
};

/** A passkey of an account. It verifies the user at every use, so it counts as two factors. */
export type Passkey = {
  /** UUIDv7. */
  id: string;
  /** Name given by its owner. */
  name: string;
  /** Time at which it was added. */
  createdAt: string;
  /** Time of its last use. Absent before the first one. */
  lastUsedAt?: string | undefined;
  /** True when it is synced to other devices of its owner, false when it is bound to one device. Updated at every use. */
  synced: boolean;
  /** Where it is stored: `platform` for the device itself, `security-key`, `phone`, or `unknown`. */
  device: string;
};

/** A browser or app that has signed in to an account before. */
export type Device = {
  /** UUID. */
  id: string;
  /** Description, derived from the User-Agent of the last sign-in, for example "Chrome on Windows". */
  label: string;
  /** IP address of the client at the last sign-in. */
  ip: string;
  /** Location of that address. Absent if it is unknown or the server has no GeoIP database. */
  location?: string | undefined;
  /** Time of the first sign-in. */
  createdAt: string;
  /** Time of the last sign-in. */
  lastUsedAt: string;
  /** True for the device on which the session that made this request began. */
  current: boolean;
};

/** A signed-in device. */
export type Session = {
  /** UUIDv7. */
  id: string;
  /** Description of the device, derived from its User-Agent, for example "Chrome on Windows". */
  device: string;
  /** IP address of the client at the last sign-in or refresh. */
  ip: string;
  /** Location of that address. Absent if it is unknown or the server has no GeoIP database. */
  location?: string | undefined;
  /** Time of sign-in. */
  createdAt: string;
  /** Time of the last request, accurate to one minute. */
  lastActive: string;
  /** True for the session that made this request. */
  current: boolean;
  /** True when an administrator opened the session to act as the user. Absent otherwise. */
  impersonated?: boolean | undefined;
  /** How the session began, such as `password`. Absent for impersonation and for sessions of earlier releases. */
  method?: string | undefined;
};

/** An API key. The key itself is never shown again after its creation. */
export type ApiKey = {
  /** UUIDv7. */
  id: string;
  /** Name of the key, 1 to 100 characters. */
  name: string;
  /** The first four and the last four random characters of the key, such as `x7Kq...b2Zt`. */
  hint: string;
  /** Models that the key may use: public names, or `provider/model`. Empty if it may use all models. */
  models: string[];
  /** Maximum number of requests per minute of this key. Absent when only the general limits apply. */
  requestsPerMinute?: number | undefined;
  /** Time of the creation. */
  createdAt: string;
  /** Time from which the key is refused. Absent when it does not expire. */
  expiresAt?: string | undefined;
  /** Time of the last request with the key, accurate to one minute. Absent before the first one. */
  lastUsedAt?: string | undefined;
  /** Address of the client at that time. Absent before the first request. */
  lastUsedIp?: string | undefined;
};

/** A figure, and its values over the period. */
export type OverviewNumber = {
  /** The figure of today, in UTC; for `24h` that of this hour, except for active users. */
  today: number;
  /** The figure of the whole period. Absent if days cannot be added up. */
  total?: number | undefined;
  /** The figure of each day or hour, oldest first. */
  daily: number[];
  /** Relative change of the completed days of the period, without today, from the same days one period earlier: 0.041 is 4.1 % more. For `24h`, relative change of the 23 completed hours from the same hours a day earlier. Absent if the earlier figure was 0, and for active users of `24h`. */
  change?: number | undefined;
  /** Average of the completed days of the period, without today. Only for active users; absent for `24h`. */
  average?: number | undefined;
};

/** The calls of a model. */
export type OverviewModel = {
  /** Public id of the provider. */
  provider: string;
  /** Public name of the model. */
  model: string;
  /** Number of calls in the period. */
  calls: number;
  /** Number of calls in each day or hour, oldest first. */
  dailyCalls: number[];
};

/** A problem that needs attention. */
export type OverviewNotice = {
  /** `locked-accounts`: accounts are locked after failed attempts. `failed-emails`: e-mails of the last 30 days could not be delivered. `no-provider`: no AI provider has an API key. `provider-failing`: at least half of the last hour's calls, of at least 5, failed at the provider. `webhook-failing`: deliveries of a webhook fail. `webhook-disabled`: a webhook was turned off because its endpoint failed or is gone. `audit-unsealed`: audit events have waited for more than a minute to be sealed. */
  kind: "locked-accounts" | "failed-emails" | "no-provider" | "provider-failing" | "audit-unsealed" | "webhook-failing" | "webhook-disabled";
  /** Number of accounts, e-mails, failed calls or events. Absent for other kinds. */
  count?: number | undefined;
  /** Public id of the failing provider. Absent otherwise. */
  provider?: string | undefined;
  /** The locked users, at most 3, the longest lock first. Empty otherwise. */
  users: Person[];
  /** When the last of the locks ends. Absent otherwise. */
  until?: string | undefined;
  /** Number of calls of the failing provider that have ended. Absent otherwise. */
  calls?: number | undefined;
  /** The latest failure: the reply of the mail server, the failure of the provider, such as `overloaded`, or the error of a delivery to the webhook. Absent if unknown, and for other kinds. */
  failure?: string | undefined;
  /** Time of the first failed attempt of the webhook, the time at which it was turned off, or the time of the oldest event that is not sealed. Absent for other kinds. */
  since?: string | undefined;
  /** The webhook that fails or is off. Absent otherwise. */
  webhook?: OverviewWebhook | undefined;
};

/** Calls to a provider within the last hour. */
export type ProviderHealth = {
  /** Public id of the provider. */
  provider: string;
  /** Number of calls that have ended, except cancelled ones. */
  calls: number;
  /** Number of calls that failed at the provider. Requests and content that it rejects do not count. */
  failedCalls: number;
  /** Median duration of completed calls in ms. Absent without one. */
  medianLatencyMs?: number | undefined;
  /** How the last failed call failed, such as `overloaded`. Absent without one. */
  lastFailure?: string | undefined;
  /** Time of the last failed call. Absent without one. */
  lastFailureAt?: string | undefined;
};

/** An amount of money, and its values over the period. Amounts are decimals such as `0.00213`. */
export type OverviewCost = {
  /** Currency, such as `USD`. */
  currency: string;
  /** The amount of today, in UTC; for `24h` that of this hour. */
  todayCost: string;
  /** The amount of the whole period. */
  totalCost: string;
  /** The amount of each day or hour, oldest first. */
  dailyCosts: string[];
  /** Number of calls in the period that are not in the amounts because their model had no price. */
  unpricedCalls: number;
  /** Relative change from one period earlier, as in OverviewNumber. */
  change?: number | undefined;
};

/** A budget of the deployment. */
export type OverviewBudget = {
  /** `cost` or `tokens`. */
  unit: "cost" | "tokens";
  /** `day` or `month`, in the time zone of budgets. */
  period: "day" | "month";
  /** Share of the limit that is used in the current period, without amounts reserved for calls in progress. 1 is all of it. */
  usedShare: number;
};

/** A user as shown to administrators. */
export type AdminUser = {
  /** UUIDv7. */
  id: string;
  /** E-mail address as its owner entered it, without surrounding whitespace. */
  email: string;
  /** Display name, 1 to 100 characters. */
  name: string;
  /** Free text, up to 1,000 characters. Absent until first set. */
  bio?: string | undefined;
  /** `user` or `admin`. */
  role: "user" | "admin";
  /** True when the e-mail address is verified. */
  emailVerified: boolean;
  /** True when login requires a second factor. */
  mfaEnabled: boolean;
  /** Time of registration. */
  createdAt: string;
  /** Time of the last change. */
  updatedAt: string;
  /** True while login or the second factor is locked because of too many failed attempts. */
  locked: boolean;
  /** Time of the last login. Absent before the first login. */
  lastLoginAt?: string | undefined;
  /** Time at which the account will be erased. Absent unless its owner requested deletion. */
  deletionDate?: string | undefined;
  /** True for a service account, which has no password and gets no e-mail. Absent otherwise. */
  serviceAccount?: boolean | undefined;
  /** Time of the suspension. Absent unless the account is suspended. */
  suspendedAt?: string | undefined;
  /** JSON object that administrators keep about the user. Absent if there is none. */
  metadata?: Record<string, unknown> | undefined;
  /** True when the user requires a second factor at every sign-in. Absent otherwise. */
  secondFactorRequired?: boolean | undefined;
};

/** A recorded event that concerns an account. */
export type AuditEvent = {
  /** UUIDv7. */
  id: string;
  /** Name of the event, such as `auth.login`. */
  event: string;
  /** `success` or `failure`. */
  outcome: "success" | "failure";
  /** User whom the event concerns. Absent when unknown. */
  userId?: string | undefined;
  /** User who caused the event. Absent when unknown. */
  actorId?: string | undefined;
  /** IP address of the client. */
  ip: string;
  /** User-Agent of the client, truncated to 400 characters. */
  userAgent: string;
  /** Id of the request, as in the server log. */
  requestId: string;
  /** Further details, depending on the event. Never contains a secret. */
  details: Record<string, unknown>;
  /** Time of the event. */
  createdAt: string;
  /** User whom the event concerns, as of now. Absent when unknown or erased. */
  user?: Person | undefined;
  /** User who caused the event, as of now. Absent when unknown or erased. */
  actor?: Person | undefined;
  /** Location of the IP address as of now, such as `Berlin, Germany`. Absent when unknown. */
  location?: string | undefined;
};

/** State of the hash chain of the audit log. It shows what is sealed; `npm run audit:verify` checks that the chain is intact. */
export type AuditChain = {
  /** Position and hash of the newest seal, in the form that `npm run audit:verify -- --head` accepts. Absent before the first seal. */
  head?: string | undefined;
  /** Time of the newest seal. Absent before the first seal. */
  sealedAt?: string | undefined;
  /** Number of events that are not sealed yet. Sealing takes about a second. */
  unsealed: number;
};

/** An e-mail and its delivery. Never contains the text of the e-mail or a token. */
export type EmailLog = {
  /** UUIDv7. */
  id: string;
  /** User whom the e-mail concerns. The record is erased with the user. */
  userId?: string | undefined;
  /** Recipient address. */
  to: string;
  /** Name of the template, such as `verify-email`. */
  template: string;
  /** `queued`, `sending`, `sent` or `failed`. */
  status: "queued" | "sending" | "sent" | "failed";
  /** Number of delivery attempts so far. */
  attempts: number;
  /** Error of the last failed attempt. Absent when no attempt has failed. */
  lastError?: string | undefined;
  /** Time at which the e-mail was queued. */
  createdAt: string;
  /** Time of delivery. Absent until the e-mail is sent. */
  sentAt?: string | undefined;
  /** Time of the next attempt. Absent once the e-mail is sent or has failed. */
  nextAttemptAt?: string | undefined;
  /** User whom the e-mail concerns, as of now. Absent without one. */
  user?: Person | undefined;
};

/** An API key as shown to administrators. */
export type AdminApiKey = {
  /** UUIDv7. */
  id: string;
  /** Name of the key, 1 to 100 characters. */
  name: string;
  /** The first four and the last four random characters of the key, such as `x7Kq...b2Zt`. */
  hint: string;
  /** Models that the key may use: public names, or `provider/model`. Empty if it may use all models. */
  models: string[];
  /** Maximum number of requests per minute of this key. Absent when only the general limits apply. */
  requestsPerMinute?: number | undefined;
  /** Time of the creation. */
  createdAt: string;
  /** Time from which the key is refused. Absent when it does not expire. */
  expiresAt?: string | undefined;
  /** Time of the last request with the key, accurate to one minute. Absent before the first one. */
  lastUsedAt?: string | undefined;
  /** Address of the client at that time. Absent before the first request. */
  lastUsedIp?: string | undefined;
  /** Owner of the key. */
  userId: string;
  /** User who created the key: the owner or, for a service account, an administrator. */
  createdBy: string;
  /** Time of the revocation. Absent when the key is not revoked. */
  revokedAt?: string | undefined;
  /** Owner of the key, as of now, in ListAllApiKeys. */
  user?: Person | undefined;
};

/** An address that receives audit events as signed HTTP requests (Standard Webhooks). */
export type Webhook = {
  /** UUIDv7. */
  id: string;
  /** URL that deliveries are posted to. */
  url: string;
  /** Description of the webhook. Absent if there is none. */
  description?: string | undefined;
  /** Names of the audit events that are delivered, such as `user.email_changed`, or `user.*` for all events of a domain. */
  events: string[];
  /** Time of the creation. Events from then on are delivered. */
  createdAt: string;
  /** Time from which nothing is delivered. Absent while the webhook is on. */
  disabledAt?: string | undefined;
  /** Why nothing is delivered: `requested` by an administrator, `gone` after status 410, `failing` after five days without a success. Absent while the webhook is on. */
  disabledReason?: "requested" | "gone" | "failing" | undefined;
  /** Time of the first failed attempt since the last success. Absent if the last attempt succeeded. */
  failingSince?: string | undefined;
  /** Until when deliveries are also signed with the secret before the last rotation. Absent afterwards. */
  previousSecretUntil?: string | undefined;
  /** Number of deliveries that wait for an attempt. */
  queued: number;
};

/** The delivery of one event to one webhook. */
export type WebhookDelivery = {
  /** UUIDv7. */
  id: string;
  /** UUID of the webhook. */
  webhookId: string;
  /** UUID of the audit event: the header `webhook-id` of every attempt. */
  eventId: string;
  /** Name of the event, or `webhook.test`. */
  event: string;
  /** `queued`, `sending`, `delivered` or `failed`. */
  status: "queued" | "sending" | "delivered" | "failed";
  /** Number of attempts so far. */
  attempts: number;
  /** HTTP status of the last response. Absent without one. */
  responseStatus?: number | undefined;
  /** Why the last attempt failed. Absent when no attempt has failed. */
  lastError?: string | undefined;
  /** Time at which the delivery was planned. */
  createdAt: string;
  /** Time of the success. Absent until then. */
  deliveredAt?: string | undefined;
  /** Time of the next attempt. Absent once the event is delivered or has failed. */
  nextAttemptAt?: string | undefined;
};

/** A provider in the catalogue. */
export type Provider = {
  /** Public id, such as `provider-a`. */
  provider: string;
  /** Public name of the model used when a request omits `model`. */
  defaultModel: string;
  /** True when the server has an API key for the provider. */
  configured: boolean;
  /** Models of the provider. The first one is the default. */
  models: Model[];
  /** Display name. Absent if the catalogue has none. */
  displayName?: string | undefined;
  /** Currency of the costs of its models, such as `USD`. Absent if none of them has a price. */
  currency?: string | undefined;
};

/** One message of a conversation. */
export type AIMessage = {
  /** `user`, `assistant` or `system`. */
  role: "user" | "assistant" | "system";
  /** Text of the message. */
  content: string;
};

/** Token usage of one reply. */
export type Usage = {
  /** Number of input tokens. */
  inputTokens: number;
  /** Number of output tokens. */
  outputTokens: number;
};

/** One user's usage of one model on one day. */
export type UsageDay = {
  /** Day in UTC, such as `2026-11-21`. */
  day: string;
  /** Id of the user. Absent once the account has been erased. */
  userId?: string | undefined;
  /** Public id of the provider. */
  provider: string;
  /** Public name of the model. */
  model: string;
  /** Number of calls, including failed ones. */
  calls: number;
  /** Number of input tokens. */
  inputTokens: number;
  /** Number of output tokens. */
  outputTokens: number;
  /** Number of calls with estimated token counts: the reply was incomplete or the provider reported none. */
  estimatedCalls: number;
  /** Id of the API key, with `groupBy=key`. Absent for calls without a key. */
  apiKeyId?: string | undefined;
  /** The user, as of now, in ListAllUsage. Absent once the account has been erased. */
  user?: Person | undefined;
  /** Number of input tokens from the providers' caches, as far as it was reported. */
  cachedInputTokens: number;
  /** Number of output tokens used for reasoning, as far as it was reported. */
  reasoningTokens: number;
  /** Cost at the prices of the time of the calls, as a decimal such as `0.00213`. Absent if no call had a price. */
  cost?: string | undefined;
  /** Currency of the cost, such as `USD`. Absent without a cost. */
  currency?: string | undefined;
  /** Number of calls that are not in the cost because their model had no price. */
  unpricedCalls: number;
  /** Name of the alias, with `groupBy=alias`. Absent for calls that named a model. */
  alias?: string | undefined;
};

/** State of a provider in one process. */
export type ProviderState = {
  /** Public id of the provider. */
  provider: string;
  /** True when the server has an API key for the provider. */
  configured: boolean;
  /** Number of API keys of the provider. */
  keys: number;
  /** The keys that are set aside, by number. The others are in use. If all are set aside, the one whose `until` comes first is used. */
  keysSetAside: ProviderKeySetAside[];
  /** `closed`: calls of aliases go to the provider. `open`: they go to other providers first, because it has failed. `half-open`: the next call tests whether it works again. Empty unless the provider is configured. */
  breaker: string;
  /** Number of requests to the provider that ended within the last minute, including retries, without cancelled ones. */
  attempts: number;
  /** Number of those that failed. Requests and content that the provider rejects do not count. */
  failedAttempts: number;
  /** Kind of the last failure, such as `overloaded`. Absent if there was none since the start of the process. */
  lastFailure?: string | undefined;
  /** Time of the last failed request. Absent without one. */
  lastFailureAt?: string | undefined;
};

/** Sums of usage. */
export type UsageSums = {
  /** Number of calls, including failed ones. */
  calls: number;
  /** Number of input tokens. */
  inputTokens: number;
  /** Number of output tokens. */
  outputTokens: number;
  /** Number of calls with estimated token counts. */
  estimatedCalls: number;
  /** Number of calls on each day of the period, oldest first. */
  dailyCalls: number[];
  /** Number of input and output tokens on each day of the period, oldest first. */
  dailyTokens: number[];
  /** Number of input tokens from the providers' caches, as far as it was reported. */
  cachedInputTokens: number;
  /** Number of output tokens used for reasoning, as far as it was reported. */
  reasoningTokens: number;
  /** Cost at the prices of the time of the calls, as a decimal such as `0.00213`. Absent if no call had a price. */
  cost?: string | undefined;
  /** Cost on each day of the period, oldest first. Empty if no call had a price. */
  dailyCosts: string[];
  /** Number of calls that are not in the cost because their model had no price. */
  unpricedCalls: number;
};

/** The usage of one day, user, model, provider, API key or alias. */
export type UsageGroup = {
  /** Day in UTC, such as `2026-11-21`. Absent unless grouped by day. */
  day?: string | undefined;
  /** The user, as of now; with `groupBy=key` the owner of the key. Absent otherwise. */
  user?: Person | undefined;
  /** Public id of the provider. Absent unless grouped by provider or model. */
  provider?: string | undefined;
  /** Public name of the model. Absent unless grouped by model. */
  model?: string | undefined;
  /** Sums of the group. */
  usage: UsageSums;
  /** Id of the API key. Absent unless grouped by key. */
  apiKeyId?: string | undefined;
  /** Name of the API key. Absent unless grouped by key, and once the key has been deleted. */
  apiKeyName?: string | undefined;
  /** Name of the alias. Absent unless grouped by alias. */
  alias?: string | undefined;
};

/** A limit on the cost or the tokens of AI calls per day or month. Amounts are decimals, such as `20` or `0.5`, in the currency of the catalogue or in tokens. */
export type Budget = {
  /** UUID. */
  id: string;
  /** Calls that the budget limits: `deployment` for all of them, `role` for each user of a role, `user` for one user, `key` for one API key. */
  scope: string;
  /** The role, or the UUID of the user or the API key. Absent for the deployment. */
  subject?: string | undefined;
  /** `cost` or `tokens` (input and output). */
  unit: string;
  /** Currency of the amounts, such as `USD`. Absent for tokens. */
  currency?: string | undefined;
  /** `day` or `month`, which begin at midnight in the time zone of the deployment. */
  period: string;
  /** Maximum amount that calls may use in a period. */
  limit: string;
  /** Percentage of the limit from which an e-mail warns the user, or the administrators for the deployment. */
  alertPercent: number;
  /** Amount that calls have used in the current period. Absent for a role, unless the list is filtered by user. */
  used?: string | undefined;
  /** Amount reserved for calls in progress: the maximum that they may use. Absent whenever `used` is absent. */
  reserved?: string | undefined;
  /** When the current period began. */
  startedAt: string;
  /** When the next period begins. */
  resetsAt: string;
  /** The user whose calls the budget limits, or the owner of the API key. Only administrators see it. */
  user?: Person | undefined;
  /** Name of the API key. */
  keyName?: string | undefined;
};

/** One invalid field of a request. */
export type Violation = {
  /** Path of the field in JSON names, such as `messages[0].role`. */
  field: string;
  /** Description of the problem. It never contains the submitted value. */
  message: string;
  /** True if the field is valid, but the model does not support it or its value. Only AIService sets it. */
  unsupported?: boolean | undefined;
};

/** A passkey that may be used, or whose authenticator must not create another one. */
export type PasskeyDescriptor = {
  /** Credential id in base64url. */
  id: string;
  /** `public-key`. */
  type: string;
  /** Transports of its authenticator, such as `internal` or `usb`. */
  transports: string[];
};

/** The relying party of a new passkey. */
export type PasskeyRelyingParty = {
  /** Domain. */
  id: string;
  /** Display name. */
  name: string;
};

/** The owner of a new passkey. */
export type PasskeyUser = {
  /** User handle in base64url. */
  id: string;
  /** E-mail address. */
  name: string;
  /** Display name. */
  displayName: string;
};

/** An accepted algorithm. */
export type PasskeyAlgorithm = {
  /** COSE algorithm identifier, such as -7 for ES256. */
  alg: number;
  /** `public-key`. */
  type: string;
};

/** Requirements for an authenticator. */
export type PasskeySelection = {
  /** `required`: the passkey is discoverable. */
  residentKey: string;
  /** True, for browsers that do not support `residentKey`. */
  requireResidentKey: boolean;
  /** `required`: the user is verified. */
  userVerification: string;
};

/** The response of an authenticator. All values are in base64url. */
export type PasskeyResponse = {
  /** What the browser signed: challenge, origin and type. */
  clientDataJSON: string;
  /** Data of the authenticator. Present for a use. */
  authenticatorData?: string | undefined;
  /** Signature over both. Present for a use. */
  signature?: string | undefined;
  /** Id of the owner, as the authenticator keeps it. Present for a use of a discoverable passkey. */
  userHandle?: string | undefined;
  /** Data and public key of a new passkey. */
  attestationObject?: string | undefined;
  /** Transports of the authenticator of a new passkey, such as `internal` or `usb`. */
  transports: string[];
};

/** A user as lists show them. */
export type Person = {
  /** UUIDv7. */
  id: string;
  /** Display name. */
  name: string;
  /** E-mail address. */
  email: string;
};

/** A webhook that needs attention. */
export type OverviewWebhook = {
  /** UUIDv7. */
  id: string;
  /** URL that events are posted to. */
  url: string;
  /** Description. Absent if there is none. */
  description?: string | undefined;
};

/** A model of a provider. */
export type Model = {
  /** Public name of the model. */
  model: string;
  /** JSON names of request fields that this model ignores. Currently `temperature` or nothing. */
  ignored: string[];
  /** Display name. Absent if the catalogue has none. */
  displayName?: string | undefined;
};

/** An API key of a provider that is temporarily not used. */
export type ProviderKeySetAside = {
  /** Number of the key in its variable, from 1. */
  number: number;
  /** When the key is used again. */
  until: string;
  /** Why it is set aside: `refused the key`, `quota exhausted` or `rate limited`. */
  reason: string;
};

/** The body of every error. */
export type ErrorBody = {
  /** HTTP status. */
  statusCode: number;
  /** Human-readable message. Do not parse it. */
  message: string;
  /** HTTP status text. */
  error: string;
  /** `INTERNAL`: An internal error. The response hides the cause; the log has it under the request id. `VALIDATION_FAILED`: At least one field is missing or invalid. `MALFORMED_REQUEST`: The request cannot be parsed, for example because of invalid JSON or invalid UTF-8. `TOKEN_INVALID`: The token from an e-mail is invalid, already used or expired. `INVALID_CURRENT_PASSWORD`: The current password, which confirms the operation, is wrong. `UNAUTHENTICATED`: The access token is missing, invalid, expired or revoked. `INVALID_CREDENTIALS`: The e-mail address or the password is wrong. `TICKET_INVALID`: The temporary token of a pending MFA login is invalid, already used or expired. `INVALID_CODE`: The TOTP code or backup code is wrong or already used. `REFRESH_TOKEN_INVALID`: The refresh token is missing, invalid, expired or revoked. `FORBIDDEN`: The caller lacks the required role. `CROSS_SITE`: A browser sent the request from another site (cross-site). `EMAIL_NOT_VERIFIED`: The e-mail address must be verified before login. `PASSWORD_EXPIRED`: The password has reached its maximum age. An e-mail with a reset link was sent. `IMPERSONATING`: The operation is not allowed while impersonating a user. `NOT_FOUND`: The route or the requested object does not exist. `METHOD_NOT_ALLOWED`: The path exists, but does not support this HTTP method. `REQUEST_TIMEOUT`: The request was not received in time. `EMAIL_TAKEN`: The e-mail address belongs to another account. `MFA_ALREADY_ENABLED`: MFA is already enabled. `MFA_NOT_ENABLED`: MFA is not enabled. `SELF_TARGETED`: Administrators cannot perform this operation on themselves. `LAST_ADMIN`: The last administrator cannot be demoted or deleted. `CONFLICT`: The current state of the object does not allow the operation. `PAYLOAD_TOO_LARGE`: The request body exceeds the route's size limit. `UNSUPPORTED_MEDIA_TYPE`: The content type of the request body is not JSON. `PROVIDER_NOT_CONFIGURED`: The AI provider has no API key on this server. `ACCOUNT_LOCKED`: The account is locked because of too many failed attempts. `RATE_LIMITED`: The caller has exceeded a rate limit. `PROVIDER_ERROR`: The AI provider failed. `NOT_IMPLEMENTED`: The operation is declared but not implemented yet. `UNAVAILABLE`: The service is overloaded, shutting down, or a dependency is unavailable. `CANCELLED`: The client cancelled the call or disconnected. `TOO_MANY_CONCURRENT`: The caller has too many concurrent requests, streams or watches. `REAUTHENTICATION_REQUIRED`: The operation requires a recent sign-in or, if the request has a password field, the password. `MFA_REQUIRED`: This deployment requires administrators to sign in with a second factor. `KEY_NOT_ALLOWED`: API keys cannot call this method. It requires the access token of a session. `PASSKEY_INVALID`: The response for the passkey is invalid, expired or already used. `PASSKEY_UNKNOWN`: No account has this passkey. `SIGN_UP_CLOSED`: The configuration does not allow registration, or not for this e-mail domain. `ACCOUNT_SUSPENDED`: An administrator has suspended the account. Returned only to callers who prove that they own it. `LAST_SIGN_IN_METHOD`: The account would be left without a way to sign in, or without the second factor that it requires. `EXTERNAL_FAILED`: The response of the sign-in provider is an error, or it is invalid, expired, already used or from another browser. Start again. `IDENTITY_TAKEN`: The identity is connected to another account. `EXTERNAL_EMAIL_MISSING`: The provider did not report an e-mail address, which a new account needs. `MODEL_NOT_PRICED`: A budget limits the cost of the caller's AI calls, but the model has no price. `BUDGET_EXCEEDED`: A budget for AI calls is used up, or the rest of it is reserved for calls in progress. */
  code: "INTERNAL" | "VALIDATION_FAILED" | "MALFORMED_REQUEST" | "TOKEN_INVALID" | "INVALID_CURRENT_PASSWORD" | "UNAUTHENTICATED" | "INVALID_CREDENTIALS" | "TICKET_INVALID" | "INVALID_CODE" | "REFRESH_TOKEN_INVALID" | "FORBIDDEN" | "CROSS_SITE" | "EMAIL_NOT_VERIFIED" | "PASSWORD_EXPIRED" | "IMPERSONATING" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "EMAIL_TAKEN" | "MFA_ALREADY_ENABLED" | "MFA_NOT_ENABLED" | "SELF_TARGETED" | "LAST_ADMIN" | "CONFLICT" | "PAYLOAD_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "PROVIDER_NOT_CONFIGURED" | "ACCOUNT_LOCKED" | "RATE_LIMITED" | "PROVIDER_ERROR" | "NOT_IMPLEMENTED" | "UNAVAILABLE" | "CANCELLED" | "TOO_MANY_CONCURRENT" | "REAUTHENTICATION_REQUIRED" | "MFA_REQUIRED" | "KEY_NOT_ALLOWED" | "PASSKEY_INVALID" | "PASSKEY_UNKNOWN" | "SIGN_UP_CLOSED" | "ACCOUNT_SUSPENDED" | "LAST_SIGN_IN_METHOD" | "EXTERNAL_FAILED" | "IDENTITY_TAKEN" | "EXTERNAL_EMAIL_MISSING" | "MODEL_NOT_PRICED" | "BUDGET_EXCEEDED";
  /** Every invalid field. Absent for other errors. */
  violations?: Violation[] | undefined;
};

/** `INTERNAL`: An internal error. The response hides the cause; the log has it under the request id. `VALIDATION_FAILED`: At least one field is missing or invalid. `MALFORMED_REQUEST`: The request cannot be parsed, for example because of invalid JSON or invalid UTF-8. `TOKEN_INVALID`: The token from an e-mail is invalid, already used or expired. `INVALID_CURRENT_PASSWORD`: The current password, which confirms the operation, is wrong. `UNAUTHENTICATED`: The access token is missing, invalid, expired or revoked. `INVALID_CREDENTIALS`: The e-mail address or the password is wrong. `TICKET_INVALID`: The temporary token of a pending MFA login is invalid, already used or expired. `INVALID_CODE`: The TOTP code or backup code is wrong or already used. `REFRESH_TOKEN_INVALID`: The refresh token is missing, invalid, expired or revoked. `FORBIDDEN`: The caller lacks the required role. `CROSS_SITE`: A browser sent the request from another site (cross-site). `EMAIL_NOT_VERIFIED`: The e-mail address must be verified before login. `PASSWORD_EXPIRED`: The password has reached its maximum age. An e-mail with a reset link was sent. `IMPERSONATING`: The operation is not allowed while impersonating a user. `NOT_FOUND`: The route or the requested object does not exist. `METHOD_NOT_ALLOWED`: The path exists, but does not support this HTTP method. `REQUEST_TIMEOUT`: The request was not received in time. `EMAIL_TAKEN`: The e-mail address belongs to another account. `MFA_ALREADY_ENABLED`: MFA is already enabled. `MFA_NOT_ENABLED`: MFA is not enabled. `SELF_TARGETED`: Administrators cannot perform this operation on themselves. `LAST_ADMIN`: The last administrator cannot be demoted or deleted. `CONFLICT`: The current state of the object does not allow the operation. `PAYLOAD_TOO_LARGE`: The request body exceeds the route's size limit. `UNSUPPORTED_MEDIA_TYPE`: The content type of the request body is not JSON. `PROVIDER_NOT_CONFIGURED`: The AI provider has no API key on this server. `ACCOUNT_LOCKED`: The account is locked because of too many failed attempts. `RATE_LIMITED`: The caller has exceeded a rate limit. `PROVIDER_ERROR`: The AI provider failed. `NOT_IMPLEMENTED`: The operation is declared but not implemented yet. `UNAVAILABLE`: The service is overloaded, shutting down, or a dependency is unavailable. `CANCELLED`: The client cancelled the call or disconnected. `TOO_MANY_CONCURRENT`: The caller has too many concurrent requests, streams or watches. `REAUTHENTICATION_REQUIRED`: The operation requires a recent sign-in or, if the request has a password field, the password. `MFA_REQUIRED`: This deployment requires administrators to sign in with a second factor. `KEY_NOT_ALLOWED`: API keys cannot call this method. It requires the access token of a session. `PASSKEY_INVALID`: The response for the passkey is invalid, expired or already used. `PASSKEY_UNKNOWN`: No account has this passkey. `SIGN_UP_CLOSED`: The configuration does not allow registration, or not for this e-mail domain. `ACCOUNT_SUSPENDED`: An administrator has suspended the account. Returned only to callers who prove that they own it. `LAST_SIGN_IN_METHOD`: The account would be left without a way to sign in, or without the second factor that it requires. `EXTERNAL_FAILED`: The response of the sign-in provider is an error, or it is invalid, expired, already used or from another browser. Start again. `IDENTITY_TAKEN`: The identity is connected to another account. `EXTERNAL_EMAIL_MISSING`: The provider did not report an e-mail address, which a new account needs. `MODEL_NOT_PRICED`: A budget limits the cost of the caller's AI calls, but the model has no price. `BUDGET_EXCEEDED`: A budget for AI calls is used up, or the rest of it is reserved for calls in progress. */
export type ErrorCode = "INTERNAL" | "VALIDATION_FAILED" | "MALFORMED_REQUEST" | "TOKEN_INVALID" | "INVALID_CURRENT_PASSWORD" | "UNAUTHENTICATED" | "INVALID_CREDENTIALS" | "TICKET_INVALID" | "INVALID_CODE" | "REFRESH_TOKEN_INVALID" | "FORBIDDEN" | "CROSS_SITE" | "EMAIL_NOT_VERIFIED" | "PASSWORD_EXPIRED" | "IMPERSONATING" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "REQUEST_TIMEOUT" | "EMAIL_TAKEN" | "MFA_ALREADY_ENABLED" | "MFA_NOT_ENABLED" | "SELF_TARGETED" | "LAST_ADMIN" | "CONFLICT" | "PAYLOAD_TOO_LARGE" | "UNSUPPORTED_MEDIA_TYPE" | "PROVIDER_NOT_CONFIGURED" | "ACCOUNT_LOCKED" | "RATE_LIMITED" | "PROVIDER_ERROR" | "NOT_IMPLEMENTED" | "UNAVAILABLE" | "CANCELLED" | "TOO_MANY_CONCURRENT" | "REAUTHENTICATION_REQUIRED" | "MFA_REQUIRED" | "KEY_NOT_ALLOWED" | "PASSKEY_INVALID" | "PASSKEY_UNKNOWN" | "SIGN_UP_CLOSED" | "ACCOUNT_SUSPENDED" | "LAST_SIGN_IN_METHOD" | "EXTERNAL_FAILED" | "IDENTITY_TAKEN" | "EXTERNAL_EMAIL_MISSING" | "MODEL_NOT_PRICED" | "BUDGET_EXCEEDED";

export type RegisterRequest = {
  /** E-mail address, at most 254 characters after trimming. A verification token is sent to it. */
  email: string;
  /** New password: 8 to 128 characters with an uppercase letter, a lowercase letter, a digit and a special character; a space counts as one. Never trimmed or truncated. Composed and decomposed characters are equivalent (NFC). It may be omitted if codes by e-mail are enabled. */
  password?: string | undefined;
  /** Display name, 1 to 100 characters after trimming. */
  name: string;
  /** Must be true. */
  acceptTerms: boolean;
  /** Token from the link that the service prints at startup while there is no administrator. The account becomes the first administrator. */
  setupToken?: string | undefined;
  /** Language of the user, a BCP 47 tag of at most 35 characters such as `de` or `en-GB`. E-mails are written in it. */
  locale?: string | undefined;
};

export type RegisterResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Id of the new account, a UUIDv7. */
  userId: string;
};

export type LoginRequest = {
  /** E-mail address of the account. Letter case, surrounding whitespace and invisible characters are ignored. */
  email: string;
  /** Password of the account, 1 to 128 characters. */
  password: string;
};

export type LoginResponse = {
  /** Access token, a JWT. Absent when a second factor is required. */
  accessToken?: string | undefined;
  /** Refresh token, a JWT. REST also sets it as the cookie `refreshToken`. Absent when a second factor is required. */
  refreshToken?: string | undefined;
  /** The user who signed in. Absent when a second factor is required. */
  user?: SignedInUser | undefined;
  /** True when a second factor is required. Continue with VerifyMfa and `tempToken`. */
  requiresMfa: boolean;
  /** Temporary token for VerifyMfa. Absent when no second factor is required. */
  tempToken?: string | undefined;
  /** True when the password has reached its maximum age. Absent otherwise. */
  passwordExpired?: boolean | undefined;
  /** True when this login cancelled a pending account deletion. Absent otherwise. */
  restored?: boolean | undefined;
  /** Second factors that complete the login: `passkey`, `totp`, `backup-code`. Absent unless the account has passkeys. */
  mfaMethods?: string[] | undefined;
};

export type LogoutResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type RefreshResponse = {
  /** New access token, a JWT. */
  accessToken: string;
  /** New refresh token, a JWT. REST also sets it as the cookie `refreshToken`. */
  refreshToken: string;
};

export type VerifyEmailRequest = {
  /** Single-use token from the verification e-mail. */
  token: string;
};

export type VerifyEmailResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ResendVerificationRequest = {
  /** E-mail address of the account. Letter case, surrounding whitespace and invisible characters are ignored. */
  email: string;
};

export type ResendVerificationResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type DisownRequest = {
  /** Single-use token from the e-mail about a new device, or from the verification e-mail. */
  token: string;
  /** The address that received the e-mail, entered by the user: programs that open links do not know it. */
  email: string;
};

export type DisownResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ForgotPasswordRequest = {
  /** E-mail address of the account. Letter case, surrounding whitespace and invisible characters are ignored. */
  email: string;
};

export type ForgotPasswordResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ResetPasswordRequest = {
  /** Single-use token from the e-mail of a reset or an invitation. */
  token: string;
  /** New password: 8 to 128 characters with an uppercase letter, a lowercase letter, a digit and a special character. Never trimmed or truncated. */
  password: string;
};

export type ResetPasswordResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type SetupTotpRequest = {
  /** The current password, 1 to 128 characters. Optional within 15 minutes of the sign-in. */
  password?: string | undefined;
};

export type SetupTotpResponse = {
  /** TOTP secret: 160 bits in base32 (RFC 6238: SHA-1, 6 digits, 30 seconds). */
  secret: string;
  /** QR code of the `otpauth://` URI: a PNG image as a data URL. */
  qrCode: string;
  /** Ten backup codes of the form `XXXX-XXXX`. Each can be used once. */
  backupCodes: string[];
};

export type VerifyMfaRequest = {
  /** Temporary token from Login. */
  tempToken: string;
  /** Six-digit TOTP code from the authenticator app. Whitespace and dashes are ignored. */
  code?: string | undefined;
  /** An unused backup code. Letter case, whitespace and dashes are ignored. */
  backupCode?: string | undefined;
};

export type VerifyMfaResponse = {
  /** Access token, a JWT. */
  accessToken: string;
  /** Refresh token, a JWT. REST also sets it as the cookie `refreshToken`. */
  refreshToken: string;
  /** The user who signed in. */
  user: VerifiedUser;
  /** True when the password has reached its maximum age. Absent otherwise. */
  passwordExpired?: boolean | undefined;
  /** True when this login cancelled a pending account deletion. Absent otherwise. */
  restored?: boolean | undefined;
};

export type StartPasskeyRequest = {
  /** Temporary token from Login, for the second step of a login. */
  tempToken?: string | undefined;
};

export type StartPasskeyResponse = {
  /** Options for `navigator.credentials.get`. */
  options: PasskeyOptions;
};

export type VerifyPasskeyRequest = {
  /** Result of `navigator.credentials.get`, as JSON. */
  credential: PasskeyCredential;
  /** Temporary token from Login, for the second step of a login. */
  tempToken?: string | undefined;
};

export type VerifyPasskeyResponse = {
  /** Access token, a JWT. */
  accessToken: string;
  /** Refresh token, a JWT. REST also sets it as the cookie `refreshToken`. */
  refreshToken: string;
  /** The user who signed in. */
  user: SignedInUser;
  /** Always false: a passkey counts as two factors. */
  requiresMfa: boolean;
  /** True when a password was used and has reached its maximum age. Absent otherwise. */
  passwordExpired?: boolean | undefined;
  /** True when this sign-in cancelled a pending account deletion. Absent otherwise. */
  restored?: boolean | undefined;
};

export type StartExternalRequest = {
  /** Id of the provider, such as `google`. */
  provider: string;
  /** `sign-in`, the default; or `prove`, which requires a new sign-in at the provider and returns an `identityToken` for ConnectIdentity or Confirm. */
  purpose?: "sign-in" | "prove" | undefined;
  /** The page or app that receives the response: one of those in the configuration. The default is the page of the web app. */
  returnTo?: string | undefined;
  /** Whether the user accepts the terms. Required for a new account. */
  acceptTerms?: boolean | undefined;
};

export type StartExternalResponse = {
  /** Where to send the user: a page of the provider. */
  authorizationUrl: string;
};

export type FinishExternalRequest = {
  /** Id of the provider. */
  provider: string;
  /** Authorization code. Absent when the provider reports an error. */
  code?: string | undefined;
  /** State, as created by StartExternal. */
  state: string;
  /** Issuer, if the provider sends it (RFC 9207). */
  iss?: string | undefined;
  /** Error of the provider, such as `access_denied`. */
  error?: string | undefined;
  /** JSON that Apple sends with the first sign-in of a person. Only its `name` is read, for a new account. */
  user?: string | undefined;
};

export type FinishExternalResponse = {
  /** Access token, a JWT. Absent when a second factor is required, and with an identity token. */
  accessToken?: string | undefined;
  /** Refresh token, a JWT. REST also sets it as the cookie `refreshToken`. Absent like the access token. */
  refreshToken?: string | undefined;
  /** The user who signed in. Absent like the access token. */
  user?: SignedInUser | undefined;
  /** True when a second factor is required. Continue with VerifyMfa and `tempToken`. */
  requiresMfa: boolean;
  /** Temporary token for VerifyMfa. Absent when no second factor is required. */
  tempToken?: string | undefined;
  /** True when this sign-in cancelled a pending account deletion. Absent otherwise. */
  restored?: boolean | undefined;
  /** Second factors that complete the sign-in: `passkey`, `totp`, `backup-code`. Absent unless the account has passkeys. */
  mfaMethods?: string[] | undefined;
  /** Proof of an identity, for ConnectIdentity and Confirm. Present if the identity belongs to no account yet, or if the purpose is `prove`. It is valid once, for 10 minutes, in this browser or app. */
  identityToken?: string | undefined;
};

export type RequestEmailCodeRequest = {
  /** E-mail address of the account. Letter case, surrounding whitespace and invisible characters are ignored. */
  email: string;
};

export type RequestEmailCodeResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type VerifyEmailCodeRequest = {
  /** E-mail address of the account. Letter case, surrounding whitespace and invisible characters are ignored. */
  email?: string | undefined;
  /** Six-digit code from the e-mail. Whitespace and dashes are ignored. */
  code?: string | undefined;
  /** Token of the link in the e-mail, instead of the address and the code. */
  token?: string | undefined;
};

export type VerifyEmailCodeResponse = {
  /** Access token, a JWT. Absent when a second factor is required. */
  accessToken?: string | undefined;
  /** Refresh token, a JWT. REST also sets it as the cookie `refreshToken`. Absent when a second factor is required. */
  refreshToken?: string | undefined;
  /** The user who signed in. Absent when a second factor is required. */
  user?: SignedInUser | undefined;
  /** True when a second factor is required. Continue with VerifyMfa and `tempToken`. */
  requiresMfa: boolean;
  /** Temporary token for VerifyMfa. Absent when no second factor is required. */
  tempToken?: string | undefined;
  /** True when this sign-in cancelled a pending account deletion. Absent otherwise. */
  restored?: boolean | undefined;
  /** Second factors that complete the sign-in: `passkey`, `totp`, `backup-code`. Absent unless the account has passkeys. */
  mfaMethods?: string[] | undefined;
};

export type ConnectIdentityRequest = {
  /** Token from FinishExternal. */
  identityToken: string;
};

export type ConnectIdentityResponse = {
  /** The connected identity. */
  identity: Identity;
};

export type DisableTotpRequest = {
  /** The current password, 1 to 128 characters. Accounts without a password omit it and need a sign-in or a confirmation within the last 15 minutes instead. */
  password?: string | undefined;
  /** Six-digit TOTP code from the authenticator app. Whitespace and dashes are ignored. */
  code?: string | undefined;
  /** An unused backup code. Letter case, whitespace and dashes are ignored. */
  backupCode?: string | undefined;
};

export type DisableTotpResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type CreateBackupCodesRequest = {
  /** The current password, 1 to 128 characters. Accounts without a password omit it and need a sign-in or a confirmation within the last 15 minutes instead. */
  password?: string | undefined;
  /** Six-digit TOTP code from the authenticator app. Whitespace and dashes are ignored. */
  code: string;
};

export type CreateBackupCodesResponse = {
  /** Ten backup codes of the form `XXXX-XXXX`. Each can be used once. */
  backupCodes: string[];
};

export type ConfirmRequest = {
  /** The current password, 1 to 128 characters. */
  password?: string | undefined;
  /** Six-digit TOTP code from the authenticator app. Accounts with a second factor require it or `backupCode`. Whitespace and dashes are ignored. */
  code?: string | undefined;
  /** An unused backup code. Letter case, whitespace and dashes are ignored. */
  backupCode?: string | undefined;
  /** Result of `navigator.credentials.get` for a passkey of the caller, as JSON. No second factor is required then. */
  passkey?: PasskeyCredential | undefined;
  /** Proof of an identity of the caller, from FinishExternal with the purpose `prove`. */
  identityToken?: string | undefined;
};

export type ConfirmResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Time at which the confirmation ends. */
  confirmedUntil: string;
};

export type ListSignInMethodsResponse = {
  /** True when users can sign in with passkeys. */
  passkey: boolean;
  /** True when users can sign in with codes by e-mail. */
  emailCode: boolean;
  /** True when anybody may register. */
  signUp: boolean;
  /** Providers that users can sign in with. */
  providers: SignInProvider[];
};

export type ListKeysResponse = {
  /** Every public key that may verify a valid access token. */
  keys: PublicKey[];
};

export type GetProfileResponse = User;

export type UpdateProfileRequest = {
  /** New display name, 1 to 100 characters after trimming. */
  name?: string | undefined;
  /** New bio, up to 1,000 characters. An empty string clears it. */
  bio?: string | undefined;
  /** New language of the user, a BCP 47 tag of at most 35 characters such as `de` or `en-GB`. E-mails are written in it. */
  locale?: string | undefined;
};

export type UpdateProfileResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** The profile after the change. */
  user: ProfileUser;
};

export type ChangePasswordRequest = {
  /** The current password, 1 to 128 characters. Accounts without a password omit it and need a sign-in or a confirmation within the last 15 minutes instead. */
  currentPassword?: string | undefined;
  /** New password: 8 to 128 characters with an uppercase letter, a lowercase letter, a digit and a special character. Never trimmed or truncated. Must differ from the current password. */
  newPassword: string;
};

export type ChangePasswordResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Number of API keys of the user, which stay valid. Absent when there are none. */
  activeApiKeys?: number | undefined;
};

export type ChangeEmailRequest = {
  /** New e-mail address. A verification token is sent to it. */
  newEmail: string;
  /** The current password, 1 to 128 characters. Accounts without a password omit it and need a sign-in or a confirmation within the last 15 minutes instead. */
  password?: string | undefined;
};

export type ChangeEmailResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type GetSignInMethodsResponse = {
  /** True when the account has a password. */
  hasPassword: boolean;
  /** Number of passkeys. */
  passkeys: number;
  /** Number of connected provider accounts. */
  identities: number;
  /** True when the user can sign in with a code by e-mail. */
  emailCode: boolean;
  /** True when every sign-in needs a second factor. */
  secondFactorRequired: boolean;
};

export type SetPasswordRequest = {
  /** The password: 8 to 128 characters with an uppercase letter, a lowercase letter, a digit and a special character. It is never trimmed or truncated. */
  newPassword: string;
};

export type SetPasswordResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type RemovePasswordResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type RequireSecondFactorRequest = {
  /** Whether every sign-in needs a second factor. */
  required: boolean;
};

export type RequireSecondFactorResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Ten new backup codes of the form `XXXX-XXXX`, if the account had none. They are never returned again. */
  backupCodes?: string[] | undefined;
};

export type CreatePasskeyOptionsRequest = {
  /** `register` for a new passkey, `confirm` for a confirmation of the session. */
  purpose: "register" | "confirm";
};

export type CreatePasskeyOptionsResponse = {
  /** Options for `navigator.credentials.create` or, for a confirmation, `get`. */
  options: PasskeyOptions;
};

export type CreatePasskeyRequest = {
  /** Result of `navigator.credentials.create`, as JSON. */
  credential: PasskeyCredential;
  /** Name, 1 to 64 characters after trimming. The default is derived from the device. */
  name?: string | undefined;
};

export type CreatePasskeyResponse = {
  /** The new passkey. */
  passkey: Passkey;
};

export type ListPasskeysResponse = Passkey[];

export type RenamePasskeyRequest = {
  /** New name, 1 to 64 characters after trimming. */
  name: string;
};

export type RenamePasskeyResponse = {
  /** The passkey after the change. */
  passkey: Passkey;
};

export type DeletePasskeyResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Credential ids of the passkeys that remain, for `PublicKeyCredential.signalAllAcceptedCredentials`. */
  acceptedIds: string[];
};

export type ListIdentitiesResponse = Identity[];

export type DeleteIdentityResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ListDevicesResponse = Device[];

export type DeleteDeviceResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ListSessionsResponse = Session[];

export type RevokeOtherSessionsResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type RevokeSessionResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type CreateApiKeyRequest = {
  /** Name of the key, 1 to 100 characters after trimming. */
  name: string;
  /** Time from which the key is refused, at most `API_KEY_MAX_AGE` (365 days) from now, which is also the default. */
  expiresAt?: string | undefined;
  /** Models that the key may use: up to 100 public names, or `provider/model`. By default it may use all models. */
  models?: string[] | undefined;
  /** Password of the caller, 1 to 128 characters. Optional within 15 minutes of the sign-in. */
  password?: string | undefined;
};

export type CreateApiKeyResponse = {
  /** The new key, without its secret. */
  apiKey: ApiKey;
  /** The key itself, such as `sk-gate-…`. It is not stored and never shown again. */
  key: string;
};

export type ListApiKeysResponse = ApiKey[];

export type RevokeApiKeyResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type DeleteAccountRequest = {
  /** The current password, 1 to 128 characters. Optional within 15 minutes of the sign-in. */
  password?: string | undefined;
};

export type DeleteAccountResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Time at which the account will be erased. */
  deletionDate: string;
};

export type ExportDataRequest = {
  /** Page number, 1 to 10,000: the `nextPage` of the previous page. The default is 1. */
  page?: number | undefined;
};

export type ExportDataResponse = Record<string, unknown>;

export type GetOverviewRequest = {
  /** Period of the figures: `24h` (this hour and the 23 before it), or `7d` or `30d` (the last days in UTC). The default is `30d`. */
  period?: "24h" | "7d" | "30d" | undefined;
};

export type GetOverviewResponse = {
  /** The days of the period in UTC, such as `2026-11-21`, oldest first. The last one is today. Empty for `24h`. */
  days: string[];
  /** Number of users. Exact up to 10,000, an estimate above. */
  users: number;
  /** True when `users` is an estimate. Absent otherwise. */
  usersEstimated?: boolean | undefined;
  /** Number of users with a session that was used on the day. It has no `total`, because a user may be active on several days, and for `24h` no `daily`. */
  activeUsers: OverviewNumber;
  /** Number of successful sign-ins. */
  signIns: OverviewNumber;
  /** Number of failed sign-ins. */
  failedSignIns: OverviewNumber;
  /** Share of today's sign-ins that failed, from 0 to 1; for `24h`, of this hour's. Absent if there were none. */
  failedSignInShare?: number | undefined;
  /** Number of registrations. */
  registrations: OverviewNumber;
  /** Number of AI calls, including failed ones. */
  aiCalls: OverviewNumber;
  /** Number of input and output tokens. */
  aiTokens: OverviewNumber;
  /** Number of e-mails that could not be delivered, by the day on which they were queued. */
  failedEmails: OverviewNumber;
  /** The models with the most calls in the period, at most 5, largest first. */
  models: OverviewModel[];
  /** Problems that need attention. Empty if there are none. */
  attention: OverviewNotice[];
  /** Calls to each provider within the last hour, up to 20,000 in total. Providers without calls are omitted. */
  providers: ProviderHealth[];
  /** Cost of AI calls at the prices of their time. Absent if no call of the period had a price. */
  aiCost?: OverviewCost | undefined;
  /** Start of each hour of `24h`, oldest first. Empty for days. */
  hours: string[];
  /** Share of the period's sign-ins that failed, from 0 to 1. Absent if there were none. */
  periodFailedSignInShare?: number | undefined;
  /** The budgets of the deployment, and their usage in the current period. Empty if there are none. */
  budgets: OverviewBudget[];
};

export type ListUsersRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Part of an e-mail address or name, 1 to 254 characters, case-insensitive. An internationalized domain may be written in Unicode or in Punycode. */
  search?: string | undefined;
  /** Filter by role: `user` or `admin`. */
  role?: "user" | "admin" | undefined;
  /** Filter by verified (true) or unverified (false) e-mail address. */
  emailVerified?: boolean | undefined;
  /** Filter by locked (true) or unlocked (false) accounts. */
  locked?: boolean | undefined;
  /** Filter by service accounts (true) or people (false). */
  serviceAccount?: boolean | undefined;
  /** Filter by suspended (true) or other (false) accounts. */
  suspended?: boolean | undefined;
  /** Order: `createdAt`, `email` or `lastLoginAt` ascending, `-createdAt`, `-email` or `-lastLoginAt` descending. The default is `-createdAt`. Users who have never signed in come first in ascending order. It cannot be combined with `search`. A `cursor` belongs to the order of its page. */
  sort?: "createdAt" | "-createdAt" | "email" | "-email" | "lastLoginAt" | "-lastLoginAt" | undefined;
  /** Filter by accounts with (true) or without (false) two-factor authentication. */
  mfaEnabled?: boolean | undefined;
};

export type ListUsersResponse = {
  /** Users, in the order of `sort`. */
  items: AdminUser[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. Exact up to 10,000, an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
};

export type InviteUserRequest = {
  /** E-mail address, at most 254 characters after trimming. The invitation is sent to it. */
  email: string;
  /** Display name, 1 to 100 characters after trimming. */
  name: string;
  /** `user` or `admin`. The default is `user`. */
  role?: "user" | "admin" | undefined;
  /** Password of the caller. Required with the role `admin`, unless the caller has confirmed within 15 minutes. */
  password?: string | undefined;
};

export type InviteUserResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** The new user. */
  user: AdminUser;
};

export type GetUserResponse = AdminUser;

export type UpdateUserRequest = {
  /** New display name, 1 to 100 characters after trimming. */
  name?: string | undefined;
  /** New e-mail address. It is unverified unless `emailVerified` is true. Changing it ends the user's sessions. A different spelling of the same address only changes the spelling. */
  email?: string | undefined;
  /** New role: `user` or `admin`. Requires `password`, or a confirmation within 15 minutes. A demotion ends the user's sessions. */
  role?: "user" | "admin" | undefined;
  /** Marks the e-mail address as verified or unverified. */
  emailVerified?: boolean | undefined;
  /** Only false is allowed: it unlocks the account. */
  locked?: boolean | undefined;
  /** Only false is allowed: it disables MFA and ends the user's sessions. */
  mfaEnabled?: boolean | undefined;
  /** The caller's own password, not the user's. Required with `role`, unless the caller has confirmed within 15 minutes. */
  password?: string | undefined;
  /** Suspends (true) or reinstates (false) the account. A suspended user cannot sign in: all sessions end, and API keys are refused until the account is reinstated. Administrators cannot be suspended. */
  suspended?: boolean | undefined;
  /** Your own data about the user: a JSON object of at most 4 KiB, nested at most 8 levels deep, with integers up to 2^53 - 1. It replaces the previous object as a whole; an empty object removes it. The user can read it. `TOKEN_METADATA` lists the members that access tokens contain in the claim `metadata`, from the next refresh on. */
  metadata?: Record<string, unknown> | undefined;
};

export type UpdateUserResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** The user after the change. */
  user: AdminUser;
};

export type DeleteUserResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ResetAccessResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ListUserSessionsResponse = Session[];

export type RevokeUserSessionsResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ListUserIdentitiesResponse = Identity[];

export type GetUserSignInMethodsResponse = {
  /** True when the account has a password. */
  hasPassword: boolean;
  /** Number of passkeys. */
  passkeys: number;
  /** Number of connected provider accounts. */
  identities: number;
  /** True when a code by e-mail can sign in. */
  emailCode: boolean;
  /** True when the owner has decided that every sign-in needs a second factor. */
  secondFactorRequired: boolean;
};

export type ListAuditLogsRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Filter by the user whom the event concerns. */
  userId?: string | undefined;
  /** Filter by the user who caused the event. */
  actorId?: string | undefined;
  /** Filter by the exact name of the event, such as `auth.login`. */
  event?: string | undefined;
  /** Start of the period, inclusive. Between the years 1970 and 9999. */
  from?: string | undefined;
  /** End of the period, exclusive. Between the years 1970 and 9999. */
  to?: string | undefined;
};

export type ListAuditLogsResponse = {
  /** Audit events, newest first. */
  items: AuditEvent[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. Exact up to 10,000, an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
  /** State of the hash chain. It does not depend on the filters. */
  chain: AuditChain;
};

export type ListEmailLogsRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Filter by the user whom the e-mail concerns. */
  userId?: string | undefined;
  /** Filter by the exact recipient address, case-insensitive. An internationalized domain may be written in Unicode or in Punycode. */
  to?: string | undefined;
  /** Filter by the name of the template, such as `verify-email`. */
  template?: string | undefined;
  /** Filter by status: `queued`, `sending`, `sent` or `failed`. */
  status?: "queued" | "sending" | "sent" | "failed" | undefined;
};

export type ListEmailLogsResponse = {
  /** E-mails, newest first. */
  items: EmailLog[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. Exact up to 10,000, an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
};

export type PreviewEmailResponse = {
  /** Subject. */
  subject: string;
  /** The e-mail as plain text. */
  text: string;
  /** The e-mail as an HTML document. The image `cid:logo` is that of `GET /app-logo`. */
  html: string;
};

export type RetryEmailResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ImpersonateRequest = {
  /** Reason, recorded in the audit log. Up to 500 characters. */
  reason?: string | undefined;
};

export type ImpersonateResponse = {
  /** Access token of the user, a JWT. Its claim `act.sub` names the administrator (RFC 8693). */
  accessToken: string;
  /** The impersonated user. */
  user: User;
  /** Time at which the session ends. */
  expiresAt: string;
};

export type ListAllApiKeysRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Filter by owner. */
  userId?: string | undefined;
  /** Part of the name or the hint, 1 to 100 characters, in any letter case. */
  search?: string | undefined;
  /** Filter by state: `active`, `expired` or `revoked`. Keys of an account whose deletion was requested count as active. */
  state?: "active" | "expired" | "revoked" | undefined;
};

export type ListAllApiKeysResponse = {
  /** Keys, newest first. */
  items: AdminApiKey[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. It is exact up to 10,000 and an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
};

export type UpdateApiKeyRequest = {
  /** Models that the key may use: up to 100 public names, or `provider/model`. An empty list changes nothing. */
  models?: string[] | undefined;
  /** Maximum number of requests per minute: 1 to 100,000. For the key of a person the general limits apply too. */
  requestsPerMinute?: number | undefined;
  /** Time from which the key is refused. It can only be made earlier. */
  expiresAt?: string | undefined;
  /** Only true is allowed. It revokes the key permanently. */
  revoked?: boolean | undefined;
};

export type UpdateApiKeyResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** The key after the change. */
  apiKey: AdminApiKey;
};

export type CreateServiceAccountRequest = {
  /** Display name, 1 to 100 characters after trimming. */
  name: string;
};

export type CreateServiceAccountResponse = {
  /** The service account. Its address is a placeholder that receives no e-mail. */
  user: AdminUser;
};

export type CreateServiceAccountKeyRequest = {
  /** Name of the key, 1 to 100 characters after trimming. */
  name: string;
  /** Time from which the key is refused, at most `API_KEY_MAX_AGE` (365 days) from now, which is also the default. */
  expiresAt?: string | undefined;
  /** Models that the key may use: up to 100 public names, or `provider/model`. By default it may use all models. */
  models?: string[] | undefined;
  /** Password of the caller, 1 to 128 characters. Optional within 15 minutes of the sign-in. */
  password?: string | undefined;
};

export type CreateServiceAccountKeyResponse = {
  /** The new key, without its secret. */
  apiKey: ApiKey;
  /** The key itself, such as `sk-gate-…`. It is not stored and never shown again. */
  key: string;
};

export type ListWebhooksResponse = Webhook[];

export type CreateWebhookRequest = {
  /** URL that deliveries are posted to: https with a public address, or an address in `WEBHOOK_NETWORKS`, where http is allowed too. Without user, password and fragment. */
  url: string;
  /** Names of audit events to deliver, such as `user.email_changed`, or `user.*` for all events of a domain. Events that strangers can cause are not available: `auth.login_failed`, `auth.mfa_failed`, `auth.external_failed` and `admin.denied`. */
  events: string[];
  /** Description of the webhook, up to 200 characters. */
  description?: string | undefined;
};

export type CreateWebhookResponse = {
  /** The new webhook. */
  webhook: Webhook;
  /** The secret that deliveries are signed with, such as `whsec_…`. It is never shown again. */
  secret: string;
};

export type UpdateWebhookRequest = {
  /** URL, as in CreateWebhook. Waiting deliveries are sent to it too. */
  url?: string | undefined;
  /** Names of audit events, as in CreateWebhook. An empty list changes nothing. */
  events?: string[] | undefined;
  /** Description of the webhook, up to 200 characters. An empty string removes it. */
  description?: string | undefined;
  /** True turns the webhook off: waiting deliveries fail, and no events are queued. False turns it on for events from now on; earlier ones can be replayed. */
  disabled?: boolean | undefined;
};

export type UpdateWebhookResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** The webhook after the change. */
  webhook: Webhook;
};

export type DeleteWebhookResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type RotateWebhookSecretResponse = {
  /** The webhook after the change. */
  webhook: Webhook;
  /** The new secret. It is never shown again. For 24 hours, deliveries are also signed with the previous one. */
  secret: string;
};

export type TestWebhookResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** UUID of the delivery. The list of deliveries shows its outcome. */
  deliveryId: string;
};

export type ReplayWebhookRequest = {
  /** Start of the period, inclusive. Between the years 1970 and 9999. */
  from: string;
  /** End of the period, exclusive. Between the years 1970 and 9999. The default is now. */
  to?: string | undefined;
};

export type ReplayWebhookResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
  /** Number of events that are delivered again, excluding those that were already waiting. */
  queued: number;
};

export type ListWebhookDeliveriesRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Filter by webhook. */
  webhookId?: string | undefined;
  /** Filter by the name of the event. */
  event?: string | undefined;
  /** Filter by status: `queued`, `sending`, `delivered` or `failed`. */
  status?: "queued" | "sending" | "delivered" | "failed" | undefined;
};

export type ListWebhookDeliveriesResponse = {
  /** Deliveries, newest first. */
  items: WebhookDelivery[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. It is exact up to 10,000 and an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
};

export type RetryWebhookDeliveryResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type ListProvidersResponse = Provider[];

export type ChatRequest = {
  /** Public id of a provider from ListProviders, 1 to 64 characters. */
  provider: string;
  /** The conversation so far, oldest first: 1 to 512 messages with at most 262,144 characters in total. At least one non-empty message must have the role `user`. */
  messages: AIMessage[];
  /** Public name of a model of this provider, 1 to 128 characters. The default is the provider's default model. */
  model?: string | undefined;
  /** Maximum number of tokens in the reply: 1 to 1,000,000. A value above the model's maximum is lowered to it. The default depends on the model. */
  maxTokens?: number | undefined;
  /** Randomness from 0 to 2; lower values are more deterministic. A value above the model's maximum is lowered to it. Models that do not accept a temperature ignore it: ListProviders names them, and the response has the header `X-AI-Ignored: temperature`. */
  temperature?: number | undefined;
  /** System instruction for the model, up to 65,536 characters. It precedes the conversation. */
  systemPrompt?: string | undefined;
};

export type ChatResponse = {
  /** Text of the reply. */
  content: string;
  /** Public name of the model. */
  model: string;
  /** Public id of the provider. */
  provider: string;
  /** Token usage. Absent when the provider does not report it. */
  usage?: Usage | undefined;
  /** Why the reply ended: `stop`, or `length` if it reached the maximum number of tokens. If a model used all its tokens for reasoning, `content` is empty. */
  finishReason: string;
};

export type StreamChatRequest = {
  /** Public id of a provider from ListProviders, 1 to 64 characters. */
  provider: string;
  /** The conversation so far, oldest first: 1 to 512 messages with at most 262,144 characters in total. At least one non-empty message must have the role `user`. */
  messages: AIMessage[];
  /** Public name of a model of this provider, 1 to 128 characters. The default is the provider's default model. */
  model?: string | undefined;
  /** Maximum number of tokens in the reply: 1 to 1,000,000. A value above the model's maximum is lowered to it. The default depends on the model. */
  maxTokens?: number | undefined;
  /** Randomness from 0 to 2; lower values are more deterministic. A value above the model's maximum is lowered to it. Models that do not accept a temperature ignore it: ListProviders names them, and the response has the header `X-AI-Ignored: temperature`. */
  temperature?: number | undefined;
  /** System instruction for the model, up to 65,536 characters. It precedes the conversation. */
  systemPrompt?: string | undefined;
};

export type ListUsageRequest = {
  /** Start of the period, inclusive, at most 366 days before its end. The default is 31 days before the end. Calls older than `USAGE_RETENTION` (90 days) are kept as daily totals; for these, start and end are rounded down to the day. */
  from?: string | undefined;
  /** End of the period, exclusive. The default is the current time. */
  to?: string | undefined;
  /** Page number, 1 to 5,000. A page has up to 1,000 rows; a shorter page is the last one. The default is 1. */
  page?: number | undefined;
  /** `key` lists the usage of each API key separately, `alias` that of each alias. Daily totals contain neither. */
  groupBy?: "key" | "alias" | undefined;
};

export type ListUsageResponse = UsageDay[];

export type ListAllUsageRequest = {
  /** Filter by user. */
  userId?: string | undefined;
  /** Start of the period, inclusive, at most 366 days before its end. The default is 31 days before the end. Calls older than `USAGE_RETENTION` (90 days) are kept as daily totals; for these, start and end are rounded down to the day. */
  from?: string | undefined;
  /** End of the period, exclusive. The default is the current time. */
  to?: string | undefined;
  /** Page number, 1 to 5,000. A page has up to 1,000 rows; a shorter page is the last one. The default is 1. */
  page?: number | undefined;
  /** `key` lists the usage of each API key separately, `alias` that of each alias. Daily totals contain neither. */
  groupBy?: "key" | "alias" | undefined;
};

export type ListAllUsageResponse = UsageDay[];

export type ExportUsageRequest = {
  /** Filter by user. */
  userId?: string | undefined;
  /** Start of the period, inclusive, at most 366 days before its end. The default is 31 days before the end. Calls older than `USAGE_RETENTION` (90 days) are kept as daily totals; for these, start and end are rounded down to the day. */
  from?: string | undefined;
  /** End of the period, exclusive. The default is the current time. */
  to?: string | undefined;
  /** `key` lists the usage of each API key separately, `alias` that of each alias. Daily totals contain neither. */
  groupBy?: "key" | "alias" | undefined;
};

export type ExportUsageResponse = string;

export type ListProviderStatesResponse = ProviderState[];

export type SumUsageRequest = {
  /** Filter by user. */
  userId?: string | undefined;
  /** First day of the period: the day in UTC of this time, at most 366 days before the last one. The default is 29 days before the last day. */
  from?: string | undefined;
  /** Last day of the period: the day in UTC of this time, inclusive. The default is today. */
  to?: string | undefined;
  /** What to group by: `day`, `user`, `model`, `provider`, `key` or `alias`. The default is `day`. Calls that are kept as daily totals have neither key nor alias, and are in `others`. */
  groupBy?: "day" | "user" | "model" | "provider" | "key" | "alias" | undefined;
  /** Maximum number of groups: 1 to 100. The default is 10. */
  limit?: number | undefined;
};

export type SumUsageResponse = {
  /** Every day of the period in UTC, such as `2026-11-21`, oldest first. */
  days: string[];
  /** Sums of the whole period. */
  totals: UsageSums;
  /** The groups with the most tokens, largest first; days newest first. Groups without calls are omitted. */
  groups: UsageGroup[];
  /** Sums of everything that is not in `groups`, such as further groups, erased users, and calls without a key or alias. Absent if there is nothing else. */
  others?: UsageSums | undefined;
  /** Currency of all costs, such as `USD`. */
  currency: string;
  /** Date on which the prices were last checked, such as `2026-11-28`. Absent if the catalogue does not say. */
  pricesAsOf?: string | undefined;
};

export type ListBudgetsRequest = {
  /** Number of rows per page: 1 to 100. The default is 20. */
  limit?: number | undefined;
  /** Position returned as `nextCursor` by the previous page. It cannot be combined with `page`. */
  cursor?: string | undefined;
  /** Page number, starting at 1. It only reaches the first 10,000 rows; use `cursor` beyond them. */
  page?: number | undefined;
  /** Filter by scope: `deployment`, `role`, `user` or `key`. */
  scope?: "deployment" | "role" | "user" | "key" | undefined;
  /** Only budgets that limit this user: the user's own, those of the role and those of the user's API keys. Budgets of the role show the usage of this user. */
  userId?: string | undefined;
};

export type ListBudgetsResponse = {
  /** Budgets, newest first. */
  items: Budget[];
  /** Position of the next page, for `cursor`. Absent on the last page. */
  nextCursor?: string | undefined;
  /** Number of matching rows. It is exact up to 10,000 and an estimate above. Pages reached with `cursor` repeat the total of the first page. */
  total: number;
  /** True when `total` is an estimate. Absent otherwise. */
  totalEstimated?: boolean | undefined;
};

export type SetBudgetRequest = {
  /** Calls that the budget limits: `deployment` for all of them, `role` for each user of a role, `user` for one user instead of the budget of the role, `key` for one API key. */
  scope: "deployment" | "role" | "user" | "key";
  /** The role (`user` or `admin`), or the UUID of the user or the API key. Absent for the deployment. */
  subject?: string | undefined;
  /** What is limited: `cost` or `tokens` (input and output). */
  unit: "cost" | "tokens";
  /** `day` or `month`, which begin at midnight in the time zone of the deployment. */
  period: "day" | "month";
  /** Maximum amount that calls may use in a period: money in the currency of the catalogue, up to 1,000,000 with at most nine decimal places, or a whole number of tokens up to 1,000,000,000,000,000. A JSON number is accepted too. `0` refuses every call. */
  limit: string | number;
  /** Percentage of the limit from which an e-mail warns: 1 to 100. The default is 80, or the value that the budget has. */
  alertPercent?: number | undefined;
  /** Sets the usage to that of the calls of the current period that have ended. Otherwise a new budget begins without usage, and an existing one keeps its usage. */
  fromUsage?: boolean | undefined;
};

export type SetBudgetResponse = {
  /** The budget after the change. */
  budget: Budget;
};

export type DeleteBudgetResponse = {
  /** Human-readable confirmation. Do not parse it. */
  message: string;
};

export type AdjustBudgetRequest = {
  /** UUID of the user, for a budget of a role. Absent for other budgets. */
  subject?: string | undefined;
  /** Amount used in the current period. It replaces the counted amount. A JSON number is accepted too. */
  used: string | number;
  /** Reason for the correction, recorded in the audit log: 1 to 500 characters. */
  reason: string;
};

export type AdjustBudgetResponse = {
  /** The budget with the corrected amount. */
  budget: Budget;
};

export type ListOwnBudgetsResponse = Budget[];

export type GetAppConfigResponse = {
  /** Name of the installation. */
  name: string;
  /** The accent colour of the installation, in readable shades. */
  accent: {
    /** Shade for light backgrounds, such as `#4f55d2`. */
    light: string;
    /** Shade for dark backgrounds. */
    dark: string;
  };
  /** Pages of the operator. */
  links: {
    /** Terms of use. */
    terms?: string | undefined;
    /** Privacy policy. */
    privacy?: string | undefined;
    /** Help for users. */
    support?: string | undefined;
  };
  /** Ways to sign in. */
  signIn: ("password" | "passkey")[];
  /** Whether anybody may register. */
  registration: boolean;
  /** Languages of the web app. */
  languages: ("en" | "de")[];
  /** URL of the logo, relative to the base URL. Absent if there is none. */
  logo?: string | undefined;
};

export type GetHealthResponse = {
  /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
  status: "ok" | "degraded" | "down";
  /** Version of the service. */
  version: string;
  /** Seconds since the start of the process. */
  uptime: number;
  /** The dependencies. */
  checks: {
    /** The database. */
    database: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** The cache. */
    cache: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** The mail server. */
    mail: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** Present while the clocks of the process and the database differ. Nothing is deleted during that time. */
    clock?: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    } | undefined;
  };
};

export type GetLivenessResponse = {
  /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
  status: "ok";
};

export type GetReadinessResponse = {
  /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
  status: "ok" | "degraded" | "down";
  /** The dependencies. */
  checks?: {
    /** The database. */
    database: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** The cache. */
    cache: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** The mail server. */
    mail: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    };
    /** Present while the clocks of the process and the database differ. Nothing is deleted during that time. */
    clock?: {
      /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
      status: "ok" | "down";
      /** Duration of the check in milliseconds. */
      latencyMs: number;
    } | undefined;
  } | undefined;
  /** Present while the process starts or shuts down. */
  phase?: "starting" | "draining" | undefined;
};

/** The database. */
export type GetDatabaseHealthResponse = {
  /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
  status: "ok" | "down";
  /** Duration of the check in milliseconds. */
  latencyMs: number;
};

/** The cache. */
export type GetCacheHealthResponse = {
  /** `ok`: ready. `degraded`: ready without the cache or the mail server, or while the clocks differ. `down`: not ready. */
  status: "ok" | "down";
  /** Duration of the check in milliseconds. */
  latencyMs: number;
};

/** Every route of the API by its subject. */
export type Api = ReturnType<typeof createApi>;

/** Creates the routes. */
export const createApi = (call: Call, stream: Stream) => ({
  /** Registration, login and tokens. */
  auth: {
    /** Creates an account and sends a verification token to its e-mail address. Requires no token. At most 10 requests in 900 seconds per address. At most 60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`. */
    register: (body: RegisterRequest, options?: CallOptions) =>
      call<RegisterResponse>("POST", "/auth/register", { body }, options),
    /** Verifies the e-mail address and the password. Returns tokens, or a temporary token if a second factor is required. Requires no token. At most 5 requests in 900 seconds per address and account. */
    login: (body: LoginRequest, options?: CallOptions) =>
      call<LoginResponse>("POST", "/auth/login", { body }, options),
    /** Ends the session of the access token and clears the refresh cookie. Under impersonation, the administrator's cookie is kept. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    logout: (options?: CallOptions) =>
      call<LogoutResponse>("POST", "/auth/logout", {}, options),
    /** Exchanges a refresh token for a new pair of tokens. Requires no token. At most 120 requests in 60 seconds per address. */
    refresh: (options?: CallOptions) =>
      call<RefreshResponse>("POST", "/auth/refresh", {}, options),
    /** Verifies the e-mail address of a new account, or completes a change of e-mail address. Requires no token. At most 30 requests in 900 seconds per address. */
    verifyEmail: (body: VerifyEmailRequest, options?: CallOptions) =>
      call<VerifyEmailResponse>("POST", "/auth/verify-email", { body }, options),
    /** Sends the verification token again. The response is the same whether or not the account exists. Requires no token. At most 3 requests in 3600 seconds per address and account. At most 60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`. */
    resendVerification: (body: ResendVerificationRequest, options?: CallOptions) =>
      call<ResendVerificationResponse>("POST", "/auth/resend-verification", { body }, options),
    /** Undoes a sign-in or a registration that was not made by the owner of the e-mail address, with the token from the e-mail about it. For a sign-in, ends every session, invalidates the password, removes passkeys, identities and second factors added since, removes the known devices, restores the address that the account had then, and sends a password reset token. For a registration whose address was never verified, erases the account. Requires no token. At most 30 requests in 900 seconds per address. */
    disown: (body: DisownRequest, options?: CallOptions) =>
      call<DisownResponse>("POST", "/auth/not-me", { body }, options),
    /** Sends a password reset token. The response is the same whether or not the account exists. Requires no token. At most 3 requests in 3600 seconds per address and account. At most 60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`. */
    forgotPassword: (body: ForgotPasswordRequest, options?: CallOptions) =>
      call<ForgotPasswordResponse>("POST", "/auth/forgot-password", { body }, options),
    /** Sets a password with the token of a password reset or an invitation, and ends every session. Requires no token. At most 30 requests in 900 seconds per address. */
    resetPassword: (body: ResetPasswordRequest, options?: CallOptions) =>
      call<ResetPasswordResponse>("POST", "/auth/reset-password", { body }, options),
    /** Creates a TOTP secret and backup codes. From the next login on, a second factor is required. Until the first code has been accepted, another call replaces the secret and the codes. Requires a sign-in within the last 15 minutes, or the password. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    setupTotp: (body?: SetupTotpRequest, options?: CallOptions) =>
      call<SetupTotpResponse>("POST", "/auth/setup-totp", { body }, options),
    /** Completes a login that requires a second factor. Requires no token. At most 10 requests in 900 seconds per address and account. */
    verifyMfa: (body: VerifyMfaRequest, options?: CallOptions) =>
      call<VerifyMfaResponse>("POST", "/auth/verify-mfa", { body }, options),
    /** Begins a sign-in with a passkey. With `tempToken`, begins the second step of a login, which accepts only passkeys of that account. Requires no token. At most 120 requests in 60 seconds per address. */
    startPasskey: (body?: StartPasskeyRequest, options?: CallOptions) =>
      call<StartPasskeyResponse>("POST", "/auth/passkey-options", { body }, options),
    /** Signs in with a passkey, or completes a login that requires a second factor. Requires no token. At most 120 requests in 60 seconds per address. */
    verifyPasskey: (body: VerifyPasskeyRequest, options?: CallOptions) =>
      call<VerifyPasskeyResponse>("POST", "/auth/verify-passkey", { body }, options),
    /** Begins a sign-in with a provider. Send the user to `authorizationUrl`. The provider's response arrives in the URL fragment of the page `returnTo`. Only the browser or app that began the sign-in can finish it. Requires no token. At most 60 requests in 60 seconds per address. */
    startExternal: (body: StartExternalRequest, options?: CallOptions) =>
      call<StartExternalResponse>("POST", "/auth/start-external", { body }, options),
    /** Finishes a sign-in with the response of the provider. Returns the same as Login; or `identityToken`, if the user must first sign in to an existing account in another way, or if the purpose is `prove`. Requires no token. At most 60 requests in 60 seconds per address. */
    finishExternal: (body: FinishExternalRequest, options?: CallOptions) =>
      call<FinishExternalResponse>("POST", "/auth/finish-external", { body }, options),
    /** Sends a sign-in code to an address. The response is the same whether or not the account exists. Requires `EMAIL_SIGN_IN=code`. Requires no token. At most 3 requests in 3600 seconds per address and account. At most 60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`. */
    requestEmailCode: (body: RequestEmailCodeRequest, options?: CallOptions) =>
      call<RequestEmailCodeResponse>("POST", "/auth/email-code", { body }, options),
    /** Signs in with a code that was sent by e-mail, or with the token of the link in that e-mail, in the browser or app that requested it. Each code allows five guesses. The address counts as verified afterwards. Requires no token. At most 10 requests in 900 seconds per address and account. */
    verifyEmailCode: (body?: VerifyEmailCodeRequest, options?: CallOptions) =>
      call<VerifyEmailCodeResponse>("POST", "/auth/verify-email-code", { body }, options),
    /** Connects an identity to the account of the caller. The owner is notified by e-mail. Requires a sign-in or a confirmation within the last 15 minutes. An account has at most 20. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    connectIdentity: (body: ConnectIdentityRequest, options?: CallOptions) =>
      call<ConnectIdentityResponse>("POST", "/auth/connect-identity", { body }, options),
    /** Disables MFA. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    disableTotp: (body?: DisableTotpRequest, options?: CallOptions) =>
      call<DisableTotpResponse>("POST", "/auth/disable-totp", { body }, options),
    /** Creates a new set of backup codes. The old set becomes invalid. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createBackupCodes: (body: CreateBackupCodesRequest, options?: CallOptions) =>
      call<CreateBackupCodesResponse>("POST", "/auth/backup-codes", { body }, options),
    /** Confirms that the caller is the user, for operations that require a recent sign-in. For 15 minutes the session is treated as if it had just begun. With a password or an identity, an account with a second factor also needs a code or backup code. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    confirm: (body?: ConfirmRequest, options?: CallOptions) =>
      call<ConfirmResponse>("POST", "/auth/confirm", { body }, options),
    /** Lists the ways to sign in that this service offers, for a sign-in page. Requires no token. At most 120 requests in 60 seconds per address. */
    listSignInMethods: (options?: CallOptions) =>
      call<ListSignInMethodsResponse>("GET", "/auth/sign-in-methods", {}, options),
    /** Lists the public keys that verify access tokens, as a JSON Web Key Set (RFC 7517). Requires no token. */
    listKeys: (options?: CallOptions) =>
      call<ListKeysResponse>("GET", "/.well-known/jwks.json", {}, options),
  },
  /** Operations of signed-in users on their own accounts. */
  user: {
    /** Returns the caller's account. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    getProfile: (options?: CallOptions) =>
      call<GetProfileResponse>("GET", "/user/profile", {}, options),
    /** Updates the display name and the bio. An absent field keeps its value. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    updateProfile: (body?: UpdateProfileRequest, options?: CallOptions) =>
      call<UpdateProfileResponse>("PUT", "/user/profile", { body }, options),
    /** Sets a new password and revokes every other session. The user is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    changePassword: (body: ChangePasswordRequest, options?: CallOptions) =>
      call<ChangePasswordResponse>("POST", "/user/change-password", { body }, options),
    /** Sends a verification token to the new e-mail address. The address changes once the token is passed to VerifyEmail. The response is the same if another account uses the address. At most three requests per hour are accepted. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. At most 60 requests in 3600 seconds per address, together with the other routes of the limit `requested-emails`. */
    changeEmail: (body: ChangeEmailRequest, options?: CallOptions) =>
      call<ChangeEmailResponse>("POST", "/user/change-email", { body }, options),
    /** Returns the ways in which the caller can sign in. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    getSignInMethods: (options?: CallOptions) =>
      call<GetSignInMethodsResponse>("GET", "/user/sign-in-methods", {}, options),
    /** Sets the first password of an account that has none. Requires a sign-in or a confirmation within the last 15 minutes. The owner is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    setPassword: (body: SetPasswordRequest, options?: CallOptions) =>
      call<SetPasswordResponse>("PUT", "/user/password", { body }, options),
    /** Removes the password and revokes every other session. Another way to sign in must remain. Requires a sign-in or a confirmation within the last 15 minutes. The owner is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    removePassword: (options?: CallOptions) =>
      call<RemovePasswordResponse>("DELETE", "/user/password", {}, options),
    /** Sets whether every sign-in needs a second factor. Requires a passkey or a confirmed authenticator app, and a sign-in or a confirmation within the last 15 minutes. The owner is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    requireSecondFactor: (body: RequireSecondFactorRequest, options?: CallOptions) =>
      call<RequireSecondFactorResponse>("PUT", "/user/second-factor", { body }, options),
    /** Begins to add a passkey, or to confirm the session with one. Adding one requires a sign-in or a confirmation within the last 15 minutes. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createPasskeyOptions: (body: CreatePasskeyOptionsRequest, options?: CallOptions) =>
      call<CreatePasskeyOptionsResponse>("POST", "/user/passkeys/options", { body }, options),
    /** Adds a passkey. The owner is notified by e-mail. An account has at most 20. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createPasskey: (body: CreatePasskeyRequest, options?: CallOptions) =>
      call<CreatePasskeyResponse>("POST", "/user/passkeys", { body }, options),
    /** Lists the passkeys of the caller, newest first. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listPasskeys: (options?: CallOptions) =>
      call<ListPasskeysResponse>("GET", "/user/passkeys", {}, options),
    /** Renames a passkey of the caller. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    renamePasskey: (id: string, body: RenamePasskeyRequest, options?: CallOptions) =>
      call<RenamePasskeyResponse>("PUT", `/user/passkeys/${encodeURIComponent(id)}`, { body }, options),
    /** Removes a passkey of the caller. Another way to sign in must remain, and another second factor while one is required. Requires a sign-in or a confirmation within the last 15 minutes. The owner is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deletePasskey: (id: string, options?: CallOptions) =>
      call<DeletePasskeyResponse>("DELETE", `/user/passkeys/${encodeURIComponent(id)}`, {}, options),
    /** Lists the identities of the caller, newest first: accounts at sign-in providers that are connected. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listIdentities: (options?: CallOptions) =>
      call<ListIdentitiesResponse>("GET", "/user/identities", {}, options),
    /** Disconnects an identity of the caller. Another way to sign in must remain. Requires a sign-in or a confirmation within the last 15 minutes. The owner is notified by e-mail. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteIdentity: (id: string, options?: CallOptions) =>
      call<DeleteIdentityResponse>("DELETE", `/user/identities/${encodeURIComponent(id)}`, {}, options),
    /** Lists the browsers and apps that have signed in to the caller's account, the last used first. At most 50 are kept. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listDevices: (options?: CallOptions) =>
      call<ListDevicesResponse>("GET", "/user/devices", {}, options),
    /** Removes a device. It counts as a new device when it signs in again. Its sessions stay open. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteDevice: (id: string, options?: CallOptions) =>
      call<DeleteDeviceResponse>("DELETE", `/user/devices/${encodeURIComponent(id)}`, {}, options),
    /** Lists the caller's open sessions, newest first. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listSessions: (options?: CallOptions) =>
      call<ListSessionsResponse>("GET", "/user/sessions", {}, options),
    /** Revokes all of the caller's sessions except the current one. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    revokeOtherSessions: (options?: CallOptions) =>
      call<RevokeOtherSessionsResponse>("DELETE", "/user/sessions", {}, options),
    /** Revokes one of the caller's sessions. Returns NOT_FOUND for another user's session. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    revokeSession: (id: string, options?: CallOptions) =>
      call<RevokeSessionResponse>("DELETE", `/user/sessions/${encodeURIComponent(id)}`, {}, options),
    /** Creates an API key for AI routes. Only this response contains the key. Requires a sign-in within the last 15 minutes, or the password. Returns CONFLICT when the caller has the maximum number of keys. The owner is notified by e-mail. Requires an access token. At most 60 requests in 3600 seconds per user. */
    createApiKey: (body: CreateApiKeyRequest, options?: CallOptions) =>
      call<CreateApiKeyResponse>("POST", "/user/api-keys", { body }, options),
    /** Lists the valid API keys of the caller, newest first. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listApiKeys: (options?: CallOptions) =>
      call<ListApiKeysResponse>("GET", "/user/api-keys", {}, options),
    /** Revokes an API key of the caller. Its next request is refused, and its open streams end within a second. Returns NOT_FOUND for a key of another user. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    revokeApiKey: (id: string, options?: CallOptions) =>
      call<RevokeApiKeyResponse>("DELETE", `/user/api-keys/${encodeURIComponent(id)}`, {}, options),
    /** Schedules the account for deletion and revokes all its sessions. Signing in before the deletion date cancels the deletion. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteAccount: (body?: DeleteAccountRequest, options?: CallOptions) =>
      call<DeleteAccountResponse>("POST", "/user/delete-account", { body }, options),
    /** Returns all data stored about the caller, page by page. Actions of other users are listed without their address, device and reason. Each page is recorded in the audit log. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    exportData: (query?: ExportDataRequest, options?: CallOptions) =>
      call<ExportDataResponse>("GET", "/user/export", { query }, options),
  },
  /** Administration of users, sessions, the audit log, the e-mail log and webhooks. */
  admin: {
    /** Returns the figures of today and of the period, and problems that need attention. Days are in UTC. Events of the last second may be missing. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    getOverview: (query?: GetOverviewRequest, options?: CallOptions) =>
      call<GetOverviewResponse>("GET", "/admin/overview", { query }, options),
    /** Lists users, newest first unless `sort` is given. If `search` has one or two characters and `page` is absent, a page may have fewer rows than `limit`. With 20,000 users or more, the `total` of such a search is an estimate. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listUsers: (query?: ListUsersRequest, options?: CallOptions) =>
      call<ListUsersResponse>("GET", "/admin/users", { query }, options),
    /** Creates an account without a password, and sends an e-mail with a token that sets one. Requires a recent sign-in, by default within the last hour. The role `admin` also requires the password of the caller, or a confirmation within 15 minutes. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    inviteUser: (body: InviteUserRequest, options?: CallOptions) =>
      call<InviteUserResponse>("POST", "/admin/users", { body }, options),
    /** Returns a user. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    getUser: (id: string, options?: CallOptions) =>
      call<GetUserResponse>("GET", `/admin/users/${encodeURIComponent(id)}`, {}, options),
    /** Updates a user. An absent field keeps its value. Only the name, the metadata and the suspension of a service account can be changed. Changing the role, e-mail address, verification, MFA or suspension requires a recent sign-in, by default within the last hour. Changing the role also requires the caller's password, or a confirmation within 15 minutes; the user and all administrators are notified by e-mail. The address, verification and MFA of an administrator cannot be changed, nor those of a user who was an administrator within the last 7 days. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    updateUser: (id: string, body?: UpdateUserRequest, options?: CallOptions) =>
      call<UpdateUserResponse>("PUT", `/admin/users/${encodeURIComponent(id)}`, { body }, options),
    /** Erases a user immediately and irreversibly. For another administrator, or a user who was one within the last 7 days, a recent sign-in is required. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteUser: (id: string, options?: CallOptions) =>
      call<DeleteUserResponse>("DELETE", `/admin/users/${encodeURIComponent(id)}`, {}, options),
    /** Removes every way to sign in of a user, ends all sessions, and sends an e-mail with a token that sets a new password. Requires a recent sign-in, by default within the last hour. Returns CONFLICT for another administrator, and for a user who was one in the last 7 days. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    resetAccess: (id: string, options?: CallOptions) =>
      call<ResetAccessResponse>("POST", `/admin/users/${encodeURIComponent(id)}/reset-access`, {}, options),
    /** Lists the open sessions of a user, newest first. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listUserSessions: (id: string, options?: CallOptions) =>
      call<ListUserSessionsResponse>("GET", `/admin/users/${encodeURIComponent(id)}/sessions`, {}, options),
    /** Revokes every session of a user. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    revokeUserSessions: (id: string, options?: CallOptions) =>
      call<RevokeUserSessionsResponse>("DELETE", `/admin/users/${encodeURIComponent(id)}/sessions`, {}, options),
    /** Lists the identities of a user, newest first: accounts at sign-in providers that are connected. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listUserIdentities: (id: string, options?: CallOptions) =>
      call<ListUserIdentitiesResponse>("GET", `/admin/users/${encodeURIComponent(id)}/identities`, {}, options),
    /** Returns the ways in which a user can sign in. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    getUserSignInMethods: (id: string, options?: CallOptions) =>
      call<GetUserSignInMethodsResponse>("GET", `/admin/users/${encodeURIComponent(id)}/sign-in-methods`, {}, options),
    /** Lists audit events, newest first. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listAuditLogs: (query?: ListAuditLogsRequest, options?: CallOptions) =>
      call<ListAuditLogsResponse>("GET", "/admin/audit-logs", { query }, options),
    /** Lists e-mails, newest first. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listEmailLogs: (query?: ListEmailLogsRequest, options?: CallOptions) =>
      call<ListEmailLogsResponse>("GET", "/admin/email-logs", { query }, options),
    /** Renders an e-mail as its recipient gets it, in the language of their account and with the current texts. Its link has no token. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    previewEmail: (id: string, options?: CallOptions) =>
      call<PreviewEmailResponse>("GET", `/admin/email-logs/${encodeURIComponent(id)}/preview`, {}, options),
    /** Queues a failed e-mail again. Returns CONFLICT for an e-mail that has not failed. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    retryEmail: (id: string, options?: CallOptions) =>
      call<RetryEmailResponse>("POST", `/admin/email-logs/${encodeURIComponent(id)}/retry`, {}, options),
    /** Opens a session that acts as a user. It lasts at most 15 minutes and ends with the administrator's session. Requires a recent sign-in, by default within the last hour. Returns CONFLICT for administrators and for users who were administrators within the last 7 days. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    impersonate: (userId: string, body?: ImpersonateRequest, options?: CallOptions) =>
      call<ImpersonateResponse>("POST", `/admin/impersonate/${encodeURIComponent(userId)}`, { body }, options),
    /** Lists the API keys of all users, newest first, including expired and revoked ones. With `search` or `state`, and without `page`, a response may have fewer rows than `limit`; from 20,000 keys on, its `total` is an estimate. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listAllApiKeys: (query?: ListAllApiKeysRequest, options?: CallOptions) =>
      call<ListAllApiKeysResponse>("GET", "/admin/api-keys", { query }, options),
    /** Restricts or revokes an API key. An absent field keeps its value. A change applies from the next request with the key on. Returns CONFLICT for a key that was already revoked. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    updateApiKey: (id: string, body?: UpdateApiKeyRequest, options?: CallOptions) =>
      call<UpdateApiKeyResponse>("PUT", `/admin/api-keys/${encodeURIComponent(id)}`, { body }, options),
    /** Creates a service account: a user that cannot sign in. Administrators create its API keys. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createServiceAccount: (body: CreateServiceAccountRequest, options?: CallOptions) =>
      call<CreateServiceAccountResponse>("POST", "/admin/service-accounts", { body }, options),
    /** Creates an API key of a service account. Only this response contains the key. Requires a sign-in within the last 15 minutes, or the password of the caller. Returns CONFLICT for a user who is not a service account, and when it has the maximum number of keys. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createServiceAccountKey: (id: string, body: CreateServiceAccountKeyRequest, options?: CallOptions) =>
      call<CreateServiceAccountKeyResponse>("POST", `/admin/users/${encodeURIComponent(id)}/api-keys`, { body }, options),
    /** Lists the webhooks, newest first. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listWebhooks: (options?: CallOptions) =>
      call<ListWebhooksResponse>("GET", "/admin/webhooks", {}, options),
    /** Creates a webhook. Only this response contains its secret. Requires a recent sign-in, by default within the last hour. Returns CONFLICT when there are 20 webhooks. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    createWebhook: (body: CreateWebhookRequest, options?: CallOptions) =>
      call<CreateWebhookResponse>("POST", "/admin/webhooks", { body }, options),
    /** Changes a webhook, or turns it off or on. An absent field keeps its value. Requires a recent sign-in, by default within the last hour. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    updateWebhook: (id: string, body?: UpdateWebhookRequest, options?: CallOptions) =>
      call<UpdateWebhookResponse>("PUT", `/admin/webhooks/${encodeURIComponent(id)}`, { body }, options),
    /** Deletes a webhook and its deliveries. Requires a recent sign-in, by default within the last hour. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteWebhook: (id: string, options?: CallOptions) =>
      call<DeleteWebhookResponse>("DELETE", `/admin/webhooks/${encodeURIComponent(id)}`, {}, options),
    /** Replaces the secret of a webhook. For 24 hours, deliveries are also signed with the previous secret. Requires a recent sign-in, by default within the last hour. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    rotateWebhookSecret: (id: string, options?: CallOptions) =>
      call<RotateWebhookSecretResponse>("POST", `/admin/webhooks/${encodeURIComponent(id)}/rotate-secret`, {}, options),
    /** Delivers an event of the type `webhook.test`, once. Its outcome is in the list of deliveries. Works even while the webhook is off. Requires a recent sign-in, by default within the last hour. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    testWebhook: (id: string, options?: CallOptions) =>
      call<TestWebhookResponse>("POST", `/admin/webhooks/${encodeURIComponent(id)}/test`, {}, options),
    /** Delivers the events of a period again, with the same ids. Requires a recent sign-in, by default within the last hour. Returns VALIDATION_FAILED for a period with more than 10,000 matching events, and CONFLICT while the webhook is off. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    replayWebhook: (id: string, body: ReplayWebhookRequest, options?: CallOptions) =>
      call<ReplayWebhookResponse>("POST", `/admin/webhooks/${encodeURIComponent(id)}/replay`, { body }, options),
    /** Lists deliveries, newest first. Those that have ended are kept for 30 days. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listWebhookDeliveries: (query?: ListWebhookDeliveriesRequest, options?: CallOptions) =>
      call<ListWebhookDeliveriesResponse>("GET", "/admin/webhook-deliveries", { query }, options),
    /** Queues a failed delivery again. Requires a recent sign-in, by default within the last hour. Returns CONFLICT for a delivery that has not failed, and while its webhook is off. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    retryWebhookDelivery: (id: string, options?: CallOptions) =>
      call<RetryWebhookDeliveryResponse>("POST", `/admin/webhook-deliveries/${encodeURIComponent(id)}/retry`, {}, options),
  },
  /** One chat API for all AI providers. */
  ai: {
    /** Lists every provider in the catalogue, including those that are not configured. A caller with an API key gets the models that the key may use. Requires an access token or an API key. At most 200 requests in 60 seconds per user. */
    listProviders: (options?: CallOptions) =>
      call<ListProvidersResponse>("GET", "/ai/providers", {}, options),
    /** Sends a conversation and returns the complete reply. Requires an access token or an API key. At most 100 requests in 60 seconds per user. */
    chat: (body: ChatRequest, options?: CallOptions) =>
      call<ChatResponse>("POST", "/ai/chat", { body }, options),
    /** Sends a conversation and streams the reply. REST sends server-sent events. Requires an access token or an API key. At most 100 requests in 60 seconds per user. */
    stream: (body: StreamChatRequest, options?: CallOptions) =>
      stream("/ai/stream", body, options),
    /** Lists the caller's usage by day, provider and model, newest first. With an API key, lists the usage of its owner. Requires an access token or an API key. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listUsage: (query?: ListUsageRequest, options?: CallOptions) =>
      call<ListUsageResponse>("GET", "/user/usage", { query }, options),
    /** Lists the usage of all users by day, user, provider and model, newest first. SumUsage returns totals. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listAllUsage: (query?: ListAllUsageRequest, options?: CallOptions) =>
      call<ListAllUsageResponse>("GET", "/admin/usage", { query }, options),
    /** Returns the usage of all users as CSV, with the filters of ListAllUsage. Returns VALIDATION_FAILED if there are more than 50,000 rows: choose a shorter period. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    exportUsage: (query?: ExportUsageRequest, options?: CallOptions) =>
      call<ExportUsageResponse>("GET", "/admin/usage.csv", { query, isText: true }, options),
    /** Returns the state of each provider in the catalogue, as seen by the process that answers. Each process has its own breakers and sets keys aside on its own. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listProviderStates: (options?: CallOptions) =>
      call<ListProviderStatesResponse>("GET", "/admin/providers", {}, options),
    /** Sums up the usage of all users, or of one, by day, user, model or provider. Days are in UTC and always whole. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    sumUsage: (query?: SumUsageRequest, options?: CallOptions) =>
      call<SumUsageResponse>("GET", "/admin/usage/sums", { query }, options),
    /** Lists budgets, newest first, with the usage of the current period. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listBudgets: (query?: ListBudgetsRequest, options?: CallOptions) =>
      call<ListBudgetsResponse>("GET", "/admin/budgets", { query }, options),
    /** Creates a budget, or changes the one with the same scope, subject, unit and period. It applies from the next call on; the first budget of a deployment within a second. Returns NOT_FOUND for an unknown user or API key. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    setBudget: (body: SetBudgetRequest, options?: CallOptions) =>
      call<SetBudgetResponse>("PUT", "/admin/budgets", { body }, options),
    /** Deletes a budget and its recorded usage. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    deleteBudget: (id: string, options?: CallOptions) =>
      call<DeleteBudgetResponse>("DELETE", `/admin/budgets/${encodeURIComponent(id)}`, {}, options),
    /** Corrects the usage of a budget in the current period, for example after a crash, because lost calls count in full. Requires the access token of an administrator. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    adjustBudget: (id: string, body: AdjustBudgetRequest, options?: CallOptions) =>
      call<AdjustBudgetResponse>("POST", `/admin/budgets/${encodeURIComponent(id)}/adjust`, { body }, options),
    /** Lists the budgets that limit the caller's own calls, with the usage of the current period. Requires an access token. At most 100 requests in 60 seconds per user, together with the other routes of the limit `authenticated`. */
    listOwnBudgets: (options?: CallOptions) =>
      call<ListOwnBudgetsResponse>("GET", "/user/budgets", {}, options),
  },
  /** What clients need to know before anybody signs in. */
  app: {
    /** Name, logo, colour and links of the installation, and the ways to sign in. Requires no token. May be cached for five minutes. */
    getAppConfig: (options?: CallOptions) =>
      call<GetAppConfigResponse>("GET", "/app-config", {}, options),
  },
  /** Health of the service and its dependencies. */
  health: {
    /** Health of the service and its dependencies. */
    getHealth: (options?: CallOptions) =>
      call<GetHealthResponse>("GET", "/health", { accepts: 503 }, options),
    /** Returns 200 while the process responds. */
    getLiveness: (options?: CallOptions) =>
      call<GetLivenessResponse>("GET", "/health/live", {}, options),
    /** Returns 200 when requests can be served. */
    getReadiness: (options?: CallOptions) =>
      call<GetReadinessResponse>("GET", "/health/ready", { accepts: 503 }, options),
    /** Health of the database. */
    getDatabaseHealth: (options?: CallOptions) =>
      call<GetDatabaseHealthResponse>("GET", "/health/database", { accepts: 503 }, options),
    /** Health of the cache. */
    getCacheHealth: (options?: CallOptions) =>
      call<GetCacheHealthResponse>("GET", "/health/cache", { accepts: 503 }, options),
  },
});
