// Tokens as buttons, shaded by how likely each was.

import { el } from "./elements.js";

/** From the log of a probability to one of six shades: 0 is certain, 5 a surprise. */
const shade = (log) => Math.min(5, Math.floor(-log));

// How vocabularies write the space before a word.
const SPACE = /^[ Ġ▁](?=.)/u;

/** A token as it can be read: the space before it and line ends are seen. */
export const readable = (text) => (text === " " ? "␣" : text.replace(SPACE, "␣")).replace(/\n/g, "↵");

/** Tokens {text, log}; act(number) is called when one is clicked. */
export function tokenButtons(tokens, { act, label, chosen = null } = {}) {
  return el("div", { class: "tokens", role: "group", "aria-label": label }, tokens.map((token, n) => tokenButton(token, n, act, chosen)));
}

/** One of them. */
export function tokenButton(token, n, act, chosen = null) {
  const begins = SPACE.test(token.text) ? " begins" : "";
  return el("button", { type: "button", class: `token p${shade(token.log)}${begins}`, "aria-pressed": chosen === null ? null : String(chosen === n), onclick: () => act?.(n) }, readable(token.text.replace(SPACE, "")) || "∅");
}
