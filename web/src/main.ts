import "./styles/app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { session } from "./lib/session.svelte.ts";
import { applyTheme } from "./lib/theme.svelte.ts";

applyTheme();
session.start();
mount(App, { target: document.body });
