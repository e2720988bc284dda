import { METHODS } from "node:http";
import type { FastifyInstance, HTTPMethods } from "fastify";

/** Collects the routes that are added from now on. @returns a function that adds a 405 route for each method they lack */
export function followRoutes(app: FastifyInstance): () => void {
  const taken = new Map<string, Set<string>>();
  for (const method of METHODS) if (!app.supportedMethods.includes(method)) app.addHttpMethod(method);
  app.addHook("onRoute", ({ url, method, config }) => {
    if (config && "allow" in config) return;
    taken.set(url, new Set([...(taken.get(url) ?? []), ...[method].flat()]));
  });
  return () => {
    for (const [url, methods] of taken) {
      const method = METHODS.filter((other) => !methods.has(other)) as HTTPMethods[];
      app.route({ method, url, config: { allow: [...methods].join(", ") }, handler: () => {} }); // the hook rejects the request
    }
  };
}
