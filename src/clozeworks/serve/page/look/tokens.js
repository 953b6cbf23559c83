// Tokens: how a text is cut into pieces.

import { el, number, table } from "../elements.js";
import { isFirst, name } from "./pieces.js";

/** The pieces of a text. */
export function tokens(record, t) {
  const { pieces } = record;
  const groups = pieces.map((each, n) => (isFirst(pieces, n) ? pieces.filter((other) => other.group === each.group) : null));
  const chips = groups.filter(Boolean).map((own) => el("span", { class: `chip${own[0].special ? " special" : ""}`, title: own.map((each) => `${each.token} (${each.id})`).join(" ") }, name(own[0]), own.length > 1 ? el("sup", {}, own.length) : null));
  const rows = pieces.map((each, n) => [n, name(each), el("code", {}, each.token), number(each.id), each.special ? t("special") : `${each.begin}–${each.end}`, el("code", {}, each.bytes)]);
  const words = record.words.filter((each) => !each.special).length;
  const facts = [t("counts", { tokens: number(pieces.length), words: number(words), characters: number(record.texts.reduce((sum, each) => sum + [...each].length, 0)) })];
  if (groups.some((each) => each && each.length > 1)) facts.push(t("joined"));
  if (record.max_length !== null && pieces.length > record.max_length) facts.push(t("too_long", { most: number(record.max_length) }));
  return el("div", {}, el("p", { class: "quiet" }, t("tokens_caution")), el("p", {}, facts.join(t("between"))), el("div", { class: "chips" }, chips),
    table(t("pieces"), [{ title: "#", number: true }, t("piece"), t("entry"), { title: "id", number: true }, t("characters"), t("bytes")], rows));
}
