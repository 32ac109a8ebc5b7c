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

export function rate(progress) {
  if (!progress?.rate) return "";
  if (["bytes", "B"].includes(progress.unit)) return `${size(Math.trunc(progress.rate))}/s`;
  return `${Number(progress.rate.toPrecision(3))} ${progress.unit || "steps"}/s`;
}

export function word(state) {
  return state === "OOM" ? "out of memory" : state.toLowerCase().replaceAll("_", " ");
}
