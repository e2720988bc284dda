import http from "node:http";

/**
 * Refreshes sessions for some seconds. Each session sends one request at a time, as browsers do.
 * @param tokens refresh tokens, one per session; replaced by the newest ones
 * @returns refreshes per second of all sessions
 */
export async function refreshLoad(url: string, tokens: string[], seconds: number): Promise<number> {
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
