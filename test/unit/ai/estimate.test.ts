import { expect, test } from "vitest";
import { estimatedInput } from "../../../services/ai/estimate.ts";
import type {
  EmbeddingPrompt,
  Prompt,
  RelayPrompt,
} from "../../../services/ai/providers/provider.ts";

const model = { imageTokens: 300, fileTokens: 9_000 } as Prompt["model"];
const image = { mediaType: "image/png", data: "A".repeat(4_000), url: "", detail: "" };

test("The estimate of an input is a token per four characters, and the maximum of each image", () => {
  const messages: Prompt["messages"] = [
    { role: "user", parts: [{ text: "0123456789" }, { image }] },
    { role: "user", parts: [{ image }] },
  ];
  expect(estimatedInput({ model, isStream: true, messages }, 10)).toBe(3 + 600);
});

test.each([
  { files: 0, fileCharacters: 0, tokens: 0 },
  { files: 1, fileCharacters: 4_000, tokens: 1_000 },
  { files: 2, fileCharacters: 4_000_000, tokens: 18_000 },
])(
  "The estimate of a relayed body with $files files of $fileCharacters characters is $tokens tokens for them",
  ({ tokens, ...of }) => {
    const relay = { bytes: 5_000_000, images: 1, ...of };
    const prompt = { model, isStream: true, relay } as unknown as RelayPrompt;
    expect(estimatedInput(prompt, 10)).toBe(3 + 300 + tokens);
  },
);

test("The estimate of texts to embed is based on their characters", () => {
  const prompt: EmbeddingPrompt = { model, isStream: false, inputs: ["0123456789"] };
  expect(estimatedInput(prompt, 10)).toBe(3);
});
