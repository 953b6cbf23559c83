// Pieces as the text they came from; those that split a character are shown as one.

import { el } from "../elements.js";

/** What a piece is called where it stands alone. */
export const name = (piece) => (piece.special ? piece.token : piece.text.replace(/\s+/g, " ").trim() || "␣");

/** The first of the pieces that split a character between them. */
export const isFirst = (pieces, n) => n === 0 || pieces[n - 1].group !== pieces[n].group;

/** The background of a share from -1 to 1: blue raises, red lowers; text on it can be read. */
export function shade(share) {
  const part = Math.round(Math.min(1, Math.abs(share)) * 45);
  return `color-mix(in srgb, var(${share < 0 ? "--s7" : "--s1"}) ${part}%, var(--surface))`;
}

/** Pieces as a text of buttons: `act(n)` when one is chosen, `shares[n]` is its background. */
export function pieceText(pieces, { act, chosen, shares, label }) {
  const made = pieces.map((piece, n) => {
    const properties = {
      class: `chip${piece.special ? " special" : ""}${shares ? " shaded" : ""}${isFirst(pieces, n) ? "" : " goes-on"}`,
      style: shares ? { background: shade(shares[n]) } : {},
    };
    if (!act) return el("span", properties, name(piece));
    return el("button", { type: "button", ...properties, "aria-pressed": String(n === chosen), onclick: () => act(n) }, name(piece));
  });
  return el("div", { class: "chips", role: "group", "aria-label": label }, made);
}
