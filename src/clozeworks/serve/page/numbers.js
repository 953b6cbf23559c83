// What is computed of vectors and of numbers.

/** The cosine of each pair of vectors. */
export function cosines(vectors) {
  const lengths = vectors.map((each) => Math.hypot(...each) || 1);
  return vectors.map((one, n) => vectors.map((other, m) => one.reduce((sum, value, k) => sum + value * other[k], 0) / (lengths[n] * lengths[m])));
}

/** Pearson's correlation of two rows of numbers; 1 for equal ones. */
export function correlation(one, other) {
  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const [a, b] = [mean(one), mean(other)];
  let both = 0, left = 0, right = 0;
  one.forEach((value, n) => {
    both += (value - a) * (other[n] - b);
    left += (value - a) ** 2;
    right += (other[n] - b) ** 2;
  });
  return both / (Math.sqrt(left * right) || 1);
}
