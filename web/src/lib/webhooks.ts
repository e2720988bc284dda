/** The names of events in a text that a user typed. */
export const namesIn = (typed: string): string[] => [
  ...new Set(typed.split(/[\s,]+/).filter((name) => name !== "")),
];

/** The name of a webhook in lists: the host of its URL and its description. */
export const nameOf = ({ url, description }: { url: string; description?: string | undefined }) =>
  description ? `${new URL(url).host} (${description})` : new URL(url).host;
