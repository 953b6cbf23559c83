// Matrices as they are sent, and how they are painted.

/** Values of {shape, scale, base64}, or of nested lists: {shape, values}, the last axis fastest. */
export function unpacked(matrix) {
  if (!matrix.base64) {
    const shape = [];
    for (let part = matrix; Array.isArray(part); part = part[0]) shape.push(part.length);
    return { shape, values: Float32Array.from(matrix.flat(Infinity)) };
  }
  const bytes = Uint8Array.from(atob(matrix.base64), (each) => each.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  const values = new Float32Array(bytes.length / 2);
  for (let n = 0; n < values.length; n++) values[n] = numbers.getUint16(2 * n, true) * matrix.scale;
  return { shape: matrix.shape, values };
}

/** One head of a matrix (heads, queries, keys), as numbers from 1 count them; a plain matrix as it is. */
export function ofHead(matrix, head, first) {
  const { shape, values } = matrix;
  if (shape.length < 3) return values;
  const size = shape[1] * shape[2];
  const at = head - first;
  return values.subarray(at * size, (at + 1) * size);
}

const parsed = (color) => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  probe.fillStyle = color;
  probe.fillRect(0, 0, 1, 1);
  return probe.getImageData(0, 0, 1, 1).data;
};

/** The colour of a property of the page, as red, green and blue. */
export function colorOf(element, name) {
  const marked = document.createElement("span");
  marked.style.color = `var(${name})`;
  element.append(marked);
  const found = parsed(getComputedStyle(marked).color);
  marked.remove();
  return [found[0], found[1], found[2]];
}

/** Paints values (rows x columns) from the ground to the full colour; small ones are raised a little. */
export function paint(canvas, values, rows, columns, most, from, to) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let n = 0; n < values.length; n++) {
    const share = Math.sqrt(Math.min(1, values[n] / (most || 1)));
    for (let part = 0; part < 3; part++) image.data[4 * n + part] = from[part] + (to[part] - from[part]) * share;
    image.data[4 * n + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
