// How numbers read: the same words as scheduling/web/wording.py.

const STEPS = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];

export function duration(seconds) {
  const whole = Math.max(0, Math.trunc(seconds));
  for (const [above, big, part, small] of STEPS) {
    if (whole >= above) {
      return `${Math.trunc(whole / above)}${big} ${String(Math.trunc((whole % above) / part)).padStart(2, "0")}${small}`;
    }
  }
  return `${whole} s`;
}

export function ago(seconds) {
  if (seconds < -1) return `in ${duration(-seconds)}`;
  return seconds < 1 ? "just now" : `${duration(seconds)} ago`;
}

export function size(bytes) {
  let value = bytes;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (value < 999.95 || unit === "TB") return unit === "B" ? `${bytes} B` : `${value.toFixed(1)} ${unit}`;
    value /= 1000;
  }
  return "";
}

const BYTES = ["byte", "bytes", "B"];

export function plural(unit) {
  if (!/^(?:.*[ _-])?[a-z]{3,}$/.test(unit) || /(^|[^s])s$/.test(unit)) return unit;
  if (/(ss|x|z|ch|sh)$/.test(unit)) return `${unit}es`;
  return /[^aeiou]y$/.test(unit) ? `${unit.slice(0, -1)}ies` : `${unit}s`;
}

export function stepsOf({ step, total, unit }) {
  if (BYTES.includes(unit)) return `${size(step)} of ${size(total)}`;
  return `${step} of ${total} ${total === 1 ? unit : plural(unit)}`.trimEnd();
}

export function rate(progress) {
  if (!progress?.rate) return "";
  const { rate: speed, unit } = progress;
  if (BYTES.includes(unit)) return `${size(Math.trunc(speed))}/s`;
  const told = Number(speed.toPrecision(3));
  return `${told} ${unit && told === 1 ? unit : plural(unit || "step")}/s`;
}

export function word(state) {
  return state === "OOM" ? "out of memory" : state.toLowerCase().replaceAll("_", " ");
}
