import DOMPurify from "dompurify";

/** A box in which a formula scrolls that is wider than the text. */
function scrolling(math: Element): Element {
  const box = Object.assign(document.createElement("span"), { className: "scrolls", tabIndex: 0 });
  box.append(math);
  return box;
}

/**
 * Shows code as a formula, in MathML. KaTeX is loaded with the first formula. Code that it cannot
 * parse is not changed.
 */
export async function showFormula(code: Element): Promise<void> {
  const { default: katex } = await import("katex");
  const displayMode = code.classList.contains("block");
  const options = { output: "mathml", displayMode, maxExpand: 100, trust: false } as const;
  try {
    const html = katex.renderToString(code.textContent ?? "", options);
    const formula = DOMPurify.sanitize(html, {
      USE_PROFILES: { mathMl: true },
      RETURN_DOM_FRAGMENT: true,
    });
    const math = formula.querySelector("math");
    if (math) code.replaceWith(displayMode ? scrolling(math) : math);
  } catch {
    code.classList.add("shown");
  }
}
