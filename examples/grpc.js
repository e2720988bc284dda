/** gRPC with grpc-js, which reads the proto files at start. */
import { promisify } from "node:util";
import { credentials, loadPackageDefinition, Metadata } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const {
  GATEHOUSE_GRPC = "http://127.0.0.1:50051",
  EMAIL,
  PASSWORD,
  PROTOS = "protos",
} = process.env;
const files = ["account/v1/auth_service", "account/v1/user_service", "ai/v1/ai_service"];
const definition = loadSync(
  files.map((file) => `gatehouse/${file}.proto`),
  { includeDirs: [PROTOS], enums: String },
);
const { account, ai } = loadPackageDefinition(definition).gatehouse;
const connect = (Client) => new Client(new URL(GATEHOUSE_GRPC).host, credentials.createInsecure());
const auth = connect(account.v1.AuthService);
const users = connect(account.v1.UserService);
const chat = connect(ai.v1.AIService);

const { accessToken } = await promisify(auth.login.bind(auth))({
  email: EMAIL,
  password: PASSWORD,
});
const metadata = new Metadata();
metadata.set("authorization", `Bearer ${accessToken}`);
const { user } = await promisify(users.getProfile.bind(users))({}, metadata);
process.stdout.write(`${user.email}\n`);

const messages = [{ role: "user", content: "case: plain" }];
for await (const { chunk } of chat.streamChat({ provider: "provider-a", messages }, metadata)) {
  process.stdout.write(chunk);
}
process.stdout.write("\n");
for (const client of [auth, users, chat]) client.close();
