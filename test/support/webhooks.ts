// Endpoints of webhooks, and what they have received.

import http, { type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { expect } from "vitest";
import type { SignedIn } from "./accounts.ts";
import type { TestApp } from "./app.ts";
import { forTest } from "./suites.ts";
import { until } from "./until.ts";

/** Settings with which webhooks may deliver to endpoints of tests. */
export const WEBHOOK_ENV = { WEBHOOK_NETWORKS: "127.0.0.0/8" };

/** A request to an endpoint. */
export type Received = {
  id: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The parsed body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape
  event: any;
};

/** Answers a request, or does not. */
export type Answer = (response: ServerResponse, received: Received) => unknown;

/** Answers with a status. */
export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(code, headers).end();

/** Starts an endpoint that answers 204. Its `answer` can be replaced. */
export async function startEndpoint(answer: Answer = status(204)) {
  const received: Received[] = [];
  const server = http.createServer(async (request, response) => {
    response.on("error", () => {});
    const body = await text(request).catch(() => "");
    const id = String(request.headers["webhook-id"]);
    const each = { id, headers: request.headers, body, event: body && JSON.parse(body) };
    received.push(each);
    endpoint.answer(response, each);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const of = (type: string, userId?: string) =>
    received.filter(
      ({ event }) => event.type === type && (userId === undefined || event.data.userId === userId),
    );
  const endpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=private`,
    received,
    answer,
    /** What it has received of a type, about a user. */
    of,
    /** Waits for a number of requests of a type. */
    until: (type: string, userId?: string, count = 1) =>
      until(`${count} of ${type}`, () => {
        const found = of(type, userId);
        return found.length >= count ? found : undefined;
      }),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return endpoint;
}

/**
 * Expects a signature by a secret, as the package `standardwebhooks` computes it, and that the
 * package accepts the request. It uses the machine's clock.
 */
export function expectSigned({ headers, body }: Received, ...secrets: string[]): void {
  const seconds = Number(headers["webhook-timestamp"]);
  const sent = new Date(seconds * 1_000);
  const expected = secrets.map((secret) =>
    new Webhook(secret).sign(String(headers["webhook-id"]), sent, body),
  );
  expect(headers["webhook-signature"]).toBe(expected.join(" "));
  if (Math.abs(Date.now() / 1_000 - seconds) > 60) return; // the test has moved the clock
  for (const secret of secrets)
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toEqual(
      JSON.parse(body),
    );
}

/** A recorded change of a webhook. */
type Change = { actor_id: string | null; details: object };

/** What an administrator enters for a webhook, in addition to its URL. */
type Form = { events?: string[]; description?: string };

/** What tests do with webhooks. */
export function webhookActions(app: TestApp) {
  let signedIn: { at: number; admin: SignedIn } | undefined;

  /** An administrator whose token is valid, even after a test has moved the clock. */
  async function asAdmin(): Promise<SignedIn> {
    const at = app.clock.now().getTime();
    if (!signedIn || at - signedIn.at > 600_000) signedIn = { at, admin: await app.signInAdmin() };
    return signedIn.admin;
  }

  /** An endpoint and its webhook, by default for all events of users. */
  async function addWebhook({ events = ["user.*"], ...form }: Form = {}, answer?: Answer) {
    const endpoint = await forTest(startEndpoint(answer));
    const admin = await asAdmin();
    const { status: created, body } = await admin.post("/admin/webhooks", {
      ...{ url: endpoint.url, events },
      ...form,
    });
    if (created !== 201) throw new Error(`webhooks answered ${created} ${JSON.stringify(body)}`);
    const id: string = body.webhook.id;
    await forTest({ close: () => app.sql("delete from webhooks where id = ?", [id]) });
    return {
      id,
      endpoint,
      secret: body.secret as string,
      path: `/admin/webhooks/${id}`,
      /** The webhook as administrators see it. */
      async read() {
        const { body: webhooks } = await (await asAdmin()).get("/admin/webhooks");
        return webhooks.find((each: { id: string }) => each.id === id);
      },
      /** Its deliveries as administrators see them, newest first. */
      async deliveries(filter = "") {
        const path = `/admin/webhook-deliveries?webhookId=${id}${filter}`;
        return (await (await asAdmin()).get(path)).body.items;
      },
      /** The recorded changes. */
      changes: () =>
        app.sql<Change>(
          `select actor_id, details from audit_events
           where event = 'admin.webhook_changed' and details->>'id' = ? order by id`,
          [id],
        ),
    };
  }

  /** A user who has changed the name, which is an event. */
  async function rename(name = "Bea") {
    const account = await app.signIn();
    await account.put("/user/profile", { name });
    return account;
  }

  /** Waits until every event is sealed. */
  const untilSealed = () =>
    until("the seals", async () => {
      const waiting = await app.sql("select 1 from audit_unsealed limit 1");
      return waiting.length === 0;
    });

  return { asAdmin, addWebhook, rename, untilSealed };
}
