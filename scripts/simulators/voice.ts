import type { ChatRequest } from "./dialect-encoder.ts";

/** What a simulated model says once in a conversation. */
export const NOTICE = "*I am simulated: my replies are prepared, whatever you ask.*";

const CODE = `Here is a small version that is easy to test:

\`\`\`typescript
/** The index of a value in a sorted list; -1 without it. */
export function search(sorted: number[], wanted: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] === wanted) return middle;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
\`\`\`

It halves the range with every step:

| List | Linear | Binary |
|:--|--:|--:|
| 1,000 | 500 | 10 |
| 1,000,000 | 500,000 | 20 |

It pays off once the list is sorted anyway and is searched more than a handful of times.`;

const TABLE = `They differ mainly in who maintains what:

| | Managed | Self-hosted |
|:--|:--|:--|
| **Start** | minutes | a day |
| **Cost at 100 users** | higher | lower |
| **Data stays in-house** | no | yes |
| **Upgrades** | automatic | yours to plan |

If nobody on the team wants to be called at night, begin with the managed one. Moving later is possible as long as you keep \
the exports.`;

const PLAN = `A plan that has worked for teams of this size:

1. **Agree on the outcome.** One sentence that everybody can repeat.
2. **Cut the first version in half.** What remains is still too much, but it ships.
3. **Show it every week.** People comment on what they see, not on what they read.
   - ten minutes, no slides
   - decisions are written down the same day
4. **Measure one thing.** For example the share of people who come back after a week.

The second step is the one that is skipped most often, and missed most.`;

const LETTER = `How about this:

> **Welcome aboard!**
>
> Your account is ready. Three things make a good first day:
>
> - set up two-factor authentication
> - pick the model that you want to start with
> - ask it something that you would have asked a colleague
>
> Questions? Just reply to this e-mail.

It is short on purpose. Readers act on the first list they see, so the most important point stands first.`;

const MATH = `The compound interest after $n$ years is

$$A = P\\left(1 + \\frac{r}{100}\\right)^n$$

With $P = 1000$ and $r = 4$, ten years give about **1,480**. Two thirds of that growth come from the second half of the time.`;

const GENERAL = `In short: it depends on how often you need it, and on who has to look after it.

The simplest approach that could work is usually the right start. Write down what you expect from it, try it with a few real \
cases, and only then decide whether more is needed. Two questions help:

- What would you notice first if it were *not* there?
- How would you undo it in a month?

If both have a clear answer, go ahead. If not, a smaller experiment is cheaper than a longer discussion.`;

/** What asks to go on with a reply that has ended early. */
const CONTINUATION_REQUEST = /^Your last message ended early/;
/** What asks for a title of a conversation: the message follows. */
const TITLE_REQUEST = /^Give a title .*\n\n/;
const WORDS_OF_TITLE = 4;
/** So many pieces tell one reply from the others. */
const MIN_PIECES = 2;

/** The first that matches is said, and gives its title to a conversation. */
const REPLIES: [about: RegExp, text: string, title: string][] = [
  [
    /\b(code|function|typescript|python|javascript|sql|regex|bug|search|programm|funktion)/i,
    CODE,
    "Binary search in TypeScript",
  ],
  [
    /\b(compare|difference|versus|vs|table|vergleich|unterschied|tabelle)/i,
    TABLE,
    "Managed or self-hosted",
  ],
  [/\b(plan|steps?|how (do|can|should)|list|launch|schritte|liste)/i, PLAN, "Launch in four steps"],
  [/\b(mail|e-mail|letter|write|rewrite|text|schreib)/i, LETTER, "Welcome letter"],
  [/\b(math|formula|interest|equation|formel|zins)/i, MATH, "Compound interest"],
];

const piecesOf = (text: string): string[] => text.split(/(?<=\s)(?=\S)/);

/** What is missing of the reply with which a conversation ends. */
function restOf(conversation: string): string[] {
  const said = conversation.trimEnd();
  for (const text of [...REPLIES.map(([, reply]) => reply), GENERAL]) {
    const pieces = piecesOf(text);
    const isSaid = (_: string, i: number) =>
      said.endsWith(
        pieces
          .slice(0, i + 1)
          .join("")
          .trimEnd(),
      );
    const last = pieces.findLastIndex(isSaid);
    if (last >= MIN_PIECES) return pieces.slice(last + 1);
  }
  return piecesOf(GENERAL);
}

/** The reply of a simulated model, in pieces: Markdown as real models write it. */
export function simulatedVoice({ lastMessage, input }: ChatRequest): string[] {
  if (CONTINUATION_REQUEST.test(lastMessage))
    return restOf(input.slice(0, input.lastIndexOf(lastMessage)));
  const message = lastMessage.replace(TITLE_REQUEST, "");
  const [, text = GENERAL, title] = REPLIES.find(([about]) => about.test(message)) ?? [];
  if (message !== lastMessage)
    return [title ?? message.split(/\s+/).slice(0, WORDS_OF_TITLE).join(" ")];
  const reply = input.includes(NOTICE) ? text : `${NOTICE}\n\n${text}`;
  return piecesOf(reply);
}
