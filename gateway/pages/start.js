// Starts the API reference. All settings except the first three keep it on this origin, without
// third-party services.
const here = new URL(".", location.href).href.replace(/\/$/, "");

/**
 * Returns an access token if the browser is signed in. Tabs take turns, since a refresh token can
 * be used only once.
 */
async function accessToken() {
  const refresh = () => fetch(`${here}/auth/refresh`, { method: "POST" });
  const response = await (navigator.locks?.request("gatehouse-refresh", refresh) ?? refresh());
  return response.ok ? (await response.json()).accessToken : "";
}

const OTHER_SAMPLES =
  "c clojure csharp dart fsharp go http java julia kotlin node objc ocaml php powershell r ruby rust swift " +
  "js/axios js/jquery js/ofetch js/xhr python/python3 python/aiohttp python/httpx_sync python/httpx_async shell/httpie shell/wget";

window.Scalar.createApiReference("#reference", {
  url: `${here}/openapi.json`,
  servers: [{ url: here }],
  authentication: {
    preferredSecurityScheme: "accessToken",
    securitySchemes: { accessToken: { token: await accessToken().catch(() => "") } },
  },
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hiddenClients: OTHER_SAMPLES.split(" "),
  defaultOpenAllTags: true,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
  telemetry: false,
  withDefaultFonts: false,
});
