import DOMPurify from "dompurify";

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
    code.replaceWith(formula.querySelector("math") ?? code);
  } catch {
    code.classList.add("shown");
  }
}
