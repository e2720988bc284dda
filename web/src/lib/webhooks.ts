/** The names of events in what somebody typed. */
export const namesIn = (typed: string): string[] => [
  ...new Set(typed.split(/[\s,]+/).filter((name) => name !== "")),
];

/** A webhook as a list names it: the host of its URL, and what it is for. */
export const nameOf = ({ url, description }: { url: string; description?: string | undefined }) =>
  description ? `${new URL(url).host} (${description})` : new URL(url).host;
