/** State of the palette, which finds pages, people and conversations. */
export const palette = $state({ isOpen: false });

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey)) return;
  event.preventDefault();
  palette.isOpen = !palette.isOpen;
});
