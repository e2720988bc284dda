/** The minimal gateway: pipes requests to UPSTREAM with `node:http` without reading them. */
import { Agent, createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";

const agent = new Agent({ keepAlive: true });
const upstream = new URL(process.env.UPSTREAM as string);

const server = createServer((request, response) => {
  const { method, headers, url = "/" } = request;
  const onward = send({
    host: upstream.hostname,
    port: upstream.port,
    path: url,
    method,
    headers,
    agent,
  });
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => response.writableFinished || onward.destroy());
  request.pipe(onward);
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
process.once("SIGTERM", () => process.exit(0));
