// A page of its own: shows the record it holds, in the language it was written in.

import { el, show } from "../elements.js";
import * as strings from "../strings/look.js";
import { parts } from "./all.js";

const record = JSON.parse(document.querySelector("#record").textContent);
const own = strings[document.documentElement.lang] ?? strings.en;
const t = (key, values = {}) => (own[key] ?? strings.en[key] ?? key).replace(/\{(\w+)\}/g, (hole, name) => values[name] ?? hole);
const title = t(`view_${record.view}`);
document.title = `${title} · Clozeworks`;
show(document.querySelector("main"), el("h1", {}, title), parts[record.view](record, t));
document.documentElement.dataset.ready = "yes";
