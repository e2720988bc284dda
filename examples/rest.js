/** REST with fetch. */
const { GATEHOUSE_URL = "http://127.0.0.1:3000", EMAIL, PASSWORD } = process.env;

async function call(path, { token, body } = {}) {
  const response = await fetch(GATEHOUSE_URL + path, {
    method: body ? "POST" : "GET",
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { "content-type": "application/json" }),
    },
    body: body && JSON.stringify(body),
  });
  if (!response.ok)
    throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return response;
}

const login = await call("/auth/login", { body: { email: EMAIL, password: PASSWORD } });
const { accessToken: token } = await login.json();
const profile = await call("/user/profile", { token });
process.stdout.write(`${(await profile.json()).email}\n`);

const messages = [{ role: "user", content: "case: plain" }];
const { body } = await call("/ai/stream", { token, body: { provider: "provider-a", messages } });
let rest = "";
for await (const part of body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + part).split("\n");
  rest = lines.pop(); // a line may arrive in several parts
  for (const line of lines) {
    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
    const { chunk, error } = JSON.parse(line.slice(6));
    if (error) throw new Error(error);
    process.stdout.write(chunk);
  }
}
process.stdout.write("\n");
