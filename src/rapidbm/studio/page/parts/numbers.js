// Numbers in few digits, and what is drawn of many.

/** 0.0213, 1,204 or 3.1e−5. */
export function short(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1000) return minus(Math.round(x).toLocaleString("en"));
  if (size < 1e-3) return minus(x.toExponential(1).replace("e", "e"));
  return minus(String(Number(x.toPrecision(digits))));
}

export const minus = (text) => text.replaceAll("-", "−");

/** A value with the digits that its error leaves. */
export function withError([value, error]) {
  if (value === null) return "not known";
  if (!error) return short(value, 4);
  const digits = Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return minus(`${value.toFixed(digits)} ± ${error.toFixed(digits)}`);
}

/** A share in percent: "42 %", "0.4 %". */
export function share(x) {
  const percent = 100 * x;
  if (percent <= 0) return "0 %";
  if (percent < 0.1) return "< 0.1 %";
  return `${percent < 10 ? Number(percent.toFixed(1)) : Math.round(percent)} %`;
}

/** A cell of a table: words as they are, numbers in five digits at most behind the point's place. */
export function cell(x) {
  if (x === null || x === undefined) return "";
  if (typeof x !== "number" || Number.isInteger(x)) return String(x);
  return minus(String(Number(x.toPrecision(5))));
}

export const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds < 100) return `${short(seconds, 2)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

export function size(bytes) {
  for (const unit of ["B", "kB", "MB"]) {
    if (bytes < 1000) return `${short(bytes, 2)} ${unit}`;
    bytes /= 1000;
  }
  return `${short(bytes, 2)} GB`;
}

export const known = (values) => values.filter((x) => x !== null && Number.isFinite(x));

export const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/** The value below which a share of sorted values lies. */
export function quantile(sorted, share) {
  const at = share * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}
