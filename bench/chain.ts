import http from "node:http";

/**
 * Refreshes for some seconds, each session one answer after the other, as browsers do.
 * @param tokens one per session; holds the newest ones afterwards
 * @returns refreshes per second over all sessions
 */
export async function chain(url: string, tokens: string[], seconds: number): Promise<number> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: tokens.length });
  const until = performance.now() + seconds * 1000;
  let count = 0;
  await Promise.all(
    tokens.map(async (_, i) => {
      while (performance.now() < until) {
        tokens[i] = await refreshOnce(url, agent, tokens[i] as string);
        count++;
      }
    }),
  );
  agent.destroy();
  return count / seconds;
}

function refreshOnce(url: string, agent: http.Agent, token: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { cookie: `refreshToken=${token}` };
    const request = http.request(
      `${url}/auth/refresh`,
      { method: "POST", agent, headers },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => {
          if (response.statusCode === 200) resolve(JSON.parse(text).refreshToken);
          else reject(new Error(`refresh answered ${response.statusCode}: ${text}`));
        });
      },
    );
    request.on("error", reject).end();
  });
}
