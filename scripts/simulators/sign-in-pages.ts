/** What the page of a simulated provider offers. */
type Person = { sub: string; email?: string | undefined; name?: string | undefined };

/** Parameter of a request with the choice of a person; an empty one refuses. */
export const CHOICE = "choice";

const STYLE = `body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 10vh auto; padding: 0 1rem; color-scheme: light dark }
a { display: block; margin: .5rem 0; padding: .75rem 1rem; border: 1px solid; border-radius: .5rem; color: inherit; text-decoration: none }
a:hover, a:focus { outline: 2px solid } small { display: block }`;

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

const page = (body: string) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Demo provider</title><style>${STYLE}</style>${body}</html>`;

/** The page at which a person is chosen who signs in. */
export function choicePage(url: URL, people: readonly Person[]): string {
  const linkTo = (choice: string) => {
    const target = new URL(url);
    target.searchParams.set(CHOICE, choice);
    return escaped(target.pathname + target.search);
  };
  const links = people.map(
    ({ sub, name = sub, email = "" }) =>
      `<a href="${linkTo(sub)}">${escaped(name)}<small>${escaped(email)}</small></a>`,
  );
  return page(
    `<h1>Demo provider</h1><p>Who signs in?</p>${links.join("")}<a href="${linkTo("")}">Cancel</a>`,
  );
}

/** A page that posts an answer, as `response_mode=form_post` asks for. */
export function formPage(target: string, answer: Record<string, string>): string {
  const fields = Object.entries(answer).map(
    ([name, value]) => `<input type="hidden" name="${name}" value="${escaped(value)}">`,
  );
  return page(
    `<form method="post" action="${escaped(target)}">${fields.join("")}</form><script>document.forms[0].submit()</script>`,
  );
}
