// Scales: from numbers to places, and round numbers to mark.

const STEPS = [1, 2, 2.5, 5, 10];

/** A straight scale from [low, high] to places [start, end]. */
export function straight([low, high], [start, end]) {
  const span = high - low || 1;
  const scale = (x) => start + ((x - low) / span) * (end - start);
  scale.back = (place) => low + ((place - start) / (end - start)) * span;
  scale.ticks = (about = 5) => ticks(low, high, about);
  return scale;
}

/** By the logarithm of 1 + x, for what begins at 0 and goes far. */
export function fromZero([low, high], range) {
  const inner = straight([Math.log1p(low), Math.log1p(high)], range);
  const scale = (x) => inner(Math.log1p(x));
  scale.back = (place) => Math.expm1(inner.back(place));
  scale.ticks = () => decades(high).filter((x) => x >= low && x <= high);
  return scale;
}

/** By the logarithm, for what is positive. */
export function logarithmic([low, high], range) {
  const inner = straight([Math.log10(low), Math.log10(high)], range);
  const scale = (x) => inner(Math.log10(x));
  scale.back = (place) => 10 ** inner.back(place);
  scale.labels = (marks) =>
    marks.map((x) => (x >= 1e-4 && x < 1e5 ? String(Number(x.toPrecision(2))) : power(x)));
  scale.ticks = () => {
    const found = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1)
      found.push(10 ** power);
    return found;
  };
  return scale;
}

function decades(high) {
  const steps = high <= 100 ? [1, 2, 5] : [1];
  const found = [0];
  for (let power = 1; power <= high; power *= 10)
    for (const step of steps) if (step * power <= high) found.push(step * power);
  return found;
}

export function ticks(low, high, about = 5) {
  const raw = (high - low) / about;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = STEPS.map((x) => x * power).find((x) => x >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
  return found;
}

/** Ticks as texts of as many digits as tell them apart. */
export function labels(marks) {
  const small = marks.some((x) => x !== 0 && Math.abs(x) < 1e-3);
  const large = marks.some((x) => Math.abs(x) >= 1e6);
  if (small || large) return marks.map((x) => (x === 0 ? "0" : power(x)));
  let digits = 0;
  while (
    digits < 6 &&
    marks.some((x) => Math.abs(x - Number(x.toFixed(digits))) > 1e-9 * Math.max(1, Math.abs(x)))
  )
    digits += 1;
  const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return marks.map((x) => (Math.abs(x) < 1e-12 ? 0 : x).toLocaleString("en", form).replace("-", "−"));
}

const RAISED = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};

function power(x) {
  const [front, exponent] = x.toExponential().split("e");
  const raised = String(Number(exponent)).replace(/./g, (c) => RAISED[c]);
  const short = Number(Number(front).toPrecision(2));
  return `${short === 1 ? "" : `${short}·`}10${raised}`;
}

/** The ends of some numbers with room around them; what is never negative has no room below 0. */
export function around(values, room = 0.06) {
  const found = values.filter((x) => Number.isFinite(x));
  if (!found.length) return [0, 1];
  const [low, high] = [Math.min(...found), Math.max(...found)];
  const margin = (high - low) * room || Math.abs(high) * 0.05 || 1;
  return [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin];
}
