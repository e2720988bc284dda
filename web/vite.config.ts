import { svelte } from "@sveltejs/vite-plugin-svelte";
import tailwindcss from "@tailwindcss/vite";
import { defaultClientConditions, defineConfig } from "vite";

// Vite's own configuration interface is a default export.
// biome-ignore lint/style/noDefaultExport: see above
export default defineConfig({
  root: import.meta.dirname,
  base: "./", // a proxy may serve the app below a path
  plugins: [tailwindcss(), svelte({ configFile: false })],
  resolve: { conditions: ["gatehouse:source", ...defaultClientConditions] },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
