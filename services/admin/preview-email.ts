import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type { Call } from "../call.ts";
import type { RenderedEmail } from "../mail/templates.ts";
import { isTemplate } from "../mail/texts.ts";
import { shownVariables } from "../mail/worker.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { findEmailContent } from "../store/emails.ts";

/** In the place of a code, which signs in. */
const HIDDEN_CODE = "······";

/**
 * Renders an e-mail as its recipient gets it, without its token and code.
 * @throws ServiceError NOT_FOUND
 */
export async function previewEmail(
  call: Pick<Call, "em" | "renderEmail">,
  id: string,
): Promise<Omit<RenderedEmail, "logo">> {
  const email = await findEmailContent(call, id);
  if (!email || !isTemplate(email.template))
    // another release may have queued it
    throw new ServiceError(Reason.NOT_FOUND, "There is no such e-mail.");
  const { subject, text, html } = call.renderEmail({
    template: email.template,
    variables: { ...shownVariables(email), code: HIDDEN_CODE },
    locale: email.locale,
    token: null,
  });
  return { subject, text, html };
}
