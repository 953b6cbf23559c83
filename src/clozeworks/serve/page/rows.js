// Rows of a file that a person chose: read here in the browser, answered a few at a time, saved.

import { ask, Away } from "./api.js";

export const MOST_BYTES = 20_000_000;
export const MOST_ROWS = 100_000;
const TOGETHER = 16;

/** The text of a file: UTF-8 or UTF-16, else GB 18030, in which older Chinese files are written. */
async function decoded(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mark = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  for (const encoding of mark ? [mark] : ["utf-8", "gb18030"]) {
    try {
      return new TextDecoder(encoding, { fatal: true }).decode(bytes);
    } catch {
      // It is another one.
    }
  }
  return new TextDecoder("utf-8").decode(bytes);
}

/** The cells of a table as text: fields may be quoted, quotes in them are doubled. */
export function cells(text, separator) {
  const rows = [];
  let row = [], at = 0;
  while (at < text.length) {
    let value = "";
    if (text[at] === '"') {
      for (at += 1; at < text.length; ) {
        const quote = text.indexOf('"', at);
        if (quote < 0) {
          value += text.slice(at);
          at = text.length;
        } else if (text[quote + 1] === '"') {
          value += text.slice(at, quote + 1);
          at = quote + 2;
        } else {
          value += text.slice(at, quote);
          at = quote + 1;
          break;
        }
      }
    }
    let end = at;
    while (end < text.length && text[end] !== separator && text[end] !== "\n") end += 1;
    value += text.slice(at, end);
    row.push(value.replace(/\r$/, ""));
    at = end + 1;
    if (end >= text.length || text[end] === "\n") {
      if (row.length > 1 || row[0]) rows.push(row);
      row = [];
    } else if (at >= text.length) row.push("");
  }
  if (row.length) rows.push(row);
  return rows;
}

/** The rows of a file: {name, columns, rows}, each row an object by column. Throws a key of a string. */
export async function readRows(file) {
  if (file.size > MOST_BYTES) throw new Error("file_large");
  const text = await decoded(file);
  const kind = /\.(\w+)$/.exec(file.name.toLowerCase())?.[1] ?? "txt";
  let columns, rows;
  if (kind === "csv" || kind === "tsv") {
    const [heads = [], ...rest] = cells(text.replace(/^\ufeff/, ""), kind === "csv" ? "," : "\t");
    columns = heads.map((each, n) => each.trim() || `${n + 1}`);
    rows = rest.map((row) => Object.fromEntries(columns.map((name, n) => [name, row[n] ?? ""])));
  } else if (kind === "jsonl" || kind === "ndjson") {
    rows = text.split("\n").filter((line) => line.trim()).map((line) => {
      const found = JSON.parse(line);
      return found !== null && typeof found === "object" && !Array.isArray(found) ? found : { text: found };
    });
    columns = [...new Set(rows.slice(0, 1000).flatMap(Object.keys))];
  } else if (kind === "txt") {
    columns = ["text"];
    rows = text.split(/\r?\n/).filter((line) => line.trim()).map((line) => ({ text: line }));
  } else throw new Error("file_kind");
  if (!rows.length) throw new Error("file_empty");
  if (rows.length > MOST_ROWS) throw new Error("file_long");
  return { name: file.name, columns, rows };
}

/** Which column each input is read from: by its usual names, else the longest texts; by input. */
export function guessed(inputs, { columns, rows }) {
  const plain = (name) => name.toLowerCase().replace(/[\s_-]/g, "");
  const looked = rows.slice(0, 200);
  const length = (column) => looked.reduce((sum, row) => sum + (typeof row[column] === "string" ? row[column].length : 0), 0);
  const free = new Set(columns);
  const found = {};
  for (const input of inputs) {
    const named = [input.name, ...(input.columns ?? [])].map(plain);
    const known = named.map((name) => columns.find((each) => free.has(each) && plain(each) === name)).find(Boolean);
    if (known) free.delete((found[input.name] = known));
  }
  for (const input of inputs) {
    if (found[input.name] || !input.required || input.kind !== "text") continue;
    const [longest] = [...free].sort((one, other) => length(other) - length(one));
    if (longest) free.delete((found[input.name] = longest));
  }
  return found;
}

/**
 * Asks for rows a few at a time; each is told by take(number, answer) or take(number, null, error).
 * A row that is refused does not stop the others; if nobody answers, it is waited for.
 */
export async function answerRows(inputs, question, take, signal) {
  const some = async (numbers) => {
    try {
      const answers = await question(numbers.map((n) => inputs[n]), signal);
      numbers.forEach((n, at) => take(n, answers[at]));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (error instanceof Away) {
        await new Promise((done, fail) => {
          document.addEventListener("clozeworks:back", done, { once: true });
          signal.addEventListener("abort", () => fail(new DOMException("stopped", "AbortError")), { once: true });
        });
        return some(numbers);
      }
      if (error.status === 429 || error.status === 503) {
        await new Promise((done) => setTimeout(done, 1000));
        signal.throwIfAborted();
        return some(numbers);
      }
      if (numbers.length === 1) take(numbers[0], null, error.message);
      else for (const n of numbers) await some([n]);
    }
  };
  for (let begin = 0; begin < inputs.length; begin += TOGETHER) {
    signal.throwIfAborted();
    await some(Array.from({ length: Math.min(TOGETHER, inputs.length - begin) }, (_, n) => begin + n));
  }
}

/** How rows are asked of a model by the kind of a form: from inputs to {headline, score, output}. */
export function questionOf(model, form, options = {}) {
  const send = (body, signal) => ask(form.path, { model: model.name, ...body, ...options }, { signal });
  const texts = (inputs) => inputs.map((each) => each.text);
  return {
    task: async (inputs, signal) => {
      const { outputs, shown } = await send({ inputs, show: true }, signal);
      return outputs.map((output, n) => ({ headline: shown[n].headline || plainly(shown[n]), score: shown[n].score, shown: shown[n], output }));
    },
    gaps: async (inputs, signal) => (await send({ inputs: texts(inputs), top: 5 }, signal)).outputs.map((output) => ({ headline: output.gaps.map(([first]) => first?.word ?? "").join(" … "), score: Math.min(...output.gaps.map(([first]) => first?.score ?? 0)), output })),
    writing: async (inputs, signal) => (await send({ inputs: texts(inputs) }, signal)).outputs.map(({ text, finish_reason, score }) => ({ headline: text, score: null, output: { text, finish_reason, score } })),
    likelihood: async (inputs, signal) => (await send({ inputs: texts(inputs) }, signal)).outputs.map(({ tokens, logprobs }) => {
      const total = logprobs.reduce((sum, each) => sum + each, 0);
      return { headline: String(Math.round(total * 1000) / 1000), score: null, output: { logprob: total, tokens: tokens.length } };
    }),
    vectors: async (inputs, signal) => (await send({ inputs: texts(inputs) }, signal)).outputs.map((vector) => ({ headline: "", score: null, output: { vector } })),
  }[form.kind];
}

/** A prediction without a headline as one line: the marks of a text, or its lines. */
function plainly(shown) {
  const points = Array.from(shown.marked?.text ?? "");
  const marks = (shown.marked?.marks ?? []).map((each) => `${points.slice(each.begin, each.end).join("")}${each.name ? ` (${each.name})` : ""}`);
  return marks.join(", ") || (shown.marked?.marks ? "" : points.join("")) || shown.lines.join(" ");
}

/** The inputs that rows are read for where a form has none of its own. */
export const inputsOf = (form) => form.inputs ?? [{ name: "text", kind: "text", required: true, columns: ["text", "sentence", "prompt", "content", "review", "question", "文本", "内容", "句子"] }];

/** What a row asks: the cells of the chosen columns; texts that look like JSON are read where none is expected. */
export function asked(row, inputs, columns) {
  const found = {};
  for (const { name, kind } of inputs) {
    if (!columns[name]) continue;
    let value = row[columns[name]];
    if (kind !== "text" && typeof value === "string") {
      try {
        value = JSON.parse(value);
      } catch {
        // It is a text then.
      }
    }
    if (value !== undefined && value !== null && value !== "") found[name] = kind === "text" && typeof value !== "string" ? String(value) : value;
  }
  return found;
}

/** Rows as CSV. */
export function csv(columns, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((each) => row[each]))].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
