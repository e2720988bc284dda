import { readdirSync, readFileSync } from "node:fs";
import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { CHROMIUM, describeWeb, seeHeading } from "../../support/browser.ts";

/** `neutral` is grey or white. */
type Family = "red" | "indigo" | "white" | "neutral";
/** `ring`: the family of the ring of the focus, if it is another one. */
type Variant = { name: string; look: string; html: string; family: Family; ring?: Family };

/** Every look of a button, and the family of colours that tells its meaning. */
const VARIANTS: Variant[] = [
  { name: "main action", look: "", html: '<button class="btn">Go</button>', family: "indigo" },
  {
    name: "link as a button",
    look: "",
    html: '<a role="button" class="btn" href="./">Go</a>',
    family: "indigo",
  },
  {
    name: "second action",
    look: "plain",
    html: '<button class="btn plain">Go</button>',
    family: "neutral",
    ring: "indigo",
  },
  {
    name: "quiet action",
    look: "ghost",
    html: '<button class="btn ghost">Go</button>',
    family: "neutral",
    ring: "indigo",
  },
  {
    name: "filter that is set",
    look: "filtered",
    html: '<button class="btn filtered">Go</button>',
    family: "neutral",
    ring: "indigo",
  },
  { name: "danger", look: "danger", html: '<button class="btn danger">Go</button>', family: "red" },
  {
    name: "danger that submits",
    look: "danger",
    html: '<button type="submit" class="btn danger">Go</button>',
    family: "red",
  },
  { name: "link", look: "link", html: '<button class="btn link">Go</button>', family: "indigo" },
  {
    name: "way out of an impersonation",
    look: "white",
    html: '<aside class="banner"><button class="btn white">Go</button></aside>',
    family: "white",
  },
];
/** Words of a class that say what a button means; others are its size and place. */
const LOOKS = ["plain", "ghost", "filtered", "danger", "link", "white"];

const BUTTON = 'document.querySelector("main :is(button, a)")';

/** What a person can do to a button. */
const STATES: Record<string, (page: Page, button: Locator) => Promise<void>> = {
  "at rest": async () => {},
  "under the mouse": (_, button) => button.hover(),
  focused: async (page, button) => {
    await page.keyboard.press("Tab"); // the ring is for people who use the keyboard
    await button.focus();
  },
  pressed: async (page, button) => {
    await button.hover();
    await page.mouse.down();
  },
  disabled: (page) => page.evaluate(`${BUTTON}.setAttribute("disabled", "")`),
};

/** Colours as the browser draws them, such as `rgb(179, 38, 30)`. */
type Look = { background: string; text: string; ring: string };
const LOOK = `(({ backgroundColor, color, boxShadow }) => {
  const drawn = (color) => {
    const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    return "rgba(" + [red, green, blue, alpha / 255].join(", ") + ")";
  };
  return { background: drawn(backgroundColor), text: drawn(color), ring: boxShadow };
})(getComputedStyle(${BUTTON}))`;

type Rgb = [red: number, green: number, blue: number, opacity: number];
const rgbOf = (color: string): Rgb => {
  const [red = 0, green = 0, blue = 0, opacity = 1] = (color.match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue, opacity];
};

function familyOf([red, green, blue]: Rgb): Family | "grey" | "other" {
  const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
  if (low > 235) return "white";
  if (high - low < 0.35 * high) return "grey";
  if (high === red && green < 0.8 * red && blue < 0.8 * red) return "red";
  return high === blue ? "indigo" : "other";
}

/** Relative luminance (WCAG 2.2). */
function luminanceOf(color: Rgb): number {
  const linear = color.slice(0, 3).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0);
}

function contrastOf(one: Rgb, other: Rgb): number {
  const [dark = 0, light = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** The look of a button of the page in a state. */
async function lookOf(page: Page, html: string, state: keyof typeof STATES): Promise<Look> {
  await page.evaluate(`document.querySelector("main").innerHTML = ${JSON.stringify(html)}`);
  await STATES[state]?.(page, page.locator("main :is(button, a)"));
  const look = (await page.evaluate(LOOK)) as Look;
  await page.mouse.up();
  await page.mouse.move(0, 0);
  return look;
}

/** The family of what fills a button; of its text where nothing does. */
const meaningOf = ({ background, text }: Look) =>
  familyOf(rgbOf(isFilled(background) ? background : text));
/** Whether a family is the expected one. */
const isOf = (seen: ReturnType<typeof familyOf>, expected: Family) =>
  expected === "neutral" ? seen === "grey" || seen === "white" : seen === expected;
const isFilled = (background: string) => rgbOf(background)[3] > 0;

const SCHEMES = ["light", "dark"] as const;

describeWeb("Web app: buttons", { browsers: CHROMIUM }, (web) => {
  /** A page in a scheme, whose content each look replaces. */
  const openIn = async (colorScheme: (typeof SCHEMES)[number]): Promise<Page> => {
    const { page } = await web.open("/sign-in");
    await seeHeading(page, "Sign in");
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    return page;
  };

  test.for(SCHEMES)(
    "each button has the same colour family and readable text in every state, %s",
    async (scheme) => {
      const page = await openIn(scheme);
      for (const { name, html, family } of VARIANTS)
        for (const state of Object.keys(STATES)) {
          const [look, about] = [await lookOf(page, html, state), `${name}, ${state}`];
          expect(isOf(meaningOf(look), family), `${about}: ${meaningOf(look)}`).toBe(true);
          if (isFilled(look.background))
            expect(contrastOf(rgbOf(look.background), rgbOf(look.text)), about).toBeGreaterThan(
              4.5,
            );
        }
    },
  );

  test.for(SCHEMES)("the focus ring of each button has its colour, %s", async (scheme) => {
    const page = await openIn(scheme);
    for (const { name, html, family, ring: expected = family } of VARIANTS) {
      const { ring } = await lookOf(page, html, "focused");
      const shadows = ring.match(/rgba?\([^)]*\)/g) ?? []; // the last one is the ring
      expect(shadows.length, name).toBeGreaterThan(0);
      const seen = familyOf(rgbOf(shadows.at(-1) ?? ""));
      expect(isOf(seen, expected), `${name}: ${seen}`).toBe(true);
    }
  });

  test("every button class of the app is tested", () => {
    const files = readdirSync("web/src", { recursive: true, encoding: "utf8" });
    const sources = files
      .filter((name) => name.endsWith(".svelte"))
      .map((name) => readFileSync(`web/src/${name}`, "utf8"));
    const classes = sources.flatMap((source) => [
      ...[...source.matchAll(/\sclass="(btn[^"]*)"/g)].map(([, each = ""]) => each),
      ...[...source.matchAll(/\slook="([^"{]+)"/g)].map(([, each = ""]) => each),
    ]);
    const looks = classes.map((each) =>
      LOOKS.filter((look) => each.split(" ").includes(look)).join(" "),
    );
    expect(looks.length).toBeGreaterThan(20);
    const unseen = new Set(looks);
    for (const { look } of VARIANTS) unseen.delete(look);
    expect([...unseen]).toEqual([]);
  });
});
