import type { AnyPrompt, Prompt } from "./providers/provider.ts";

/** Estimated length of a token in characters, where a provider has not reported its count. */
const CHARACTERS_PER_TOKEN = 4;

/** Estimated number of tokens of a text. */
export const tokensIn = (characters: number): number =>
  Math.ceil(characters / CHARACTERS_PER_TOKEN);

/**
 * Estimated number of input tokens of a prompt, until its provider reports them. Images have the
 * most that the model counts for one; files have the tokens of a text of their size, and no more
 * than the model counts for one.
 * @param characters of the text that the model reads
 */
export function estimatedInput(prompt: AnyPrompt, characters: number): number {
  const { imageTokens, fileTokens } = prompt.model;
  const { images, files, fileCharacters } = contentOf(prompt);
  const ofFiles = Math.min(files * fileTokens, tokensIn(fileCharacters));
  return tokensIn(characters) + images * imageTokens + ofFiles;
}

/** What a prompt has in addition to its text. */
function contentOf(prompt: AnyPrompt) {
  if ("relay" in prompt) return prompt.relay;
  if ("inputs" in prompt) return TEXT_ALONE;
  return { ...TEXT_ALONE, images: imagesIn(prompt) };
}

const TEXT_ALONE = { images: 0, files: 0, fileCharacters: 0 };

/** Number of images in the messages of a prompt. */
export const imagesIn = ({ messages }: Pick<Prompt, "messages">): number =>
  messages.reduce((sum, { parts }) => sum + parts.filter((part) => "image" in part).length, 0);
