import "@picocss/pico/css/pico.indigo.min.css";
import "./app.css";
import "./frame.css";
import "./content.css";
import "./chat.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { session } from "./lib/session.svelte.ts";

session.start();
mount(App, { target: document.body });
