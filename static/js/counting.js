// Durations that go on growing, or running out, while a page is open: no two clocks are compared.
import { duration } from "./wording.js";

const begun = new WeakMap();

// As many seconds as the element was told, and those since then, or less those.
function tick(element) {
  const told = element.dataset.counts;
  if (begun.get(element)?.told !== told) begun.set(element, { told, at: performance.now() });
  const passed = (performance.now() - begun.get(element).at) / 1000;
  const text = duration("down" in element.dataset ? Number(told) - passed : Number(told) + passed);
  if (element.textContent !== text) element.textContent = text;
}

export function count() {
  for (const element of document.querySelectorAll("[data-counts]")) tick(element);
}

// The element says so many seconds, and counts on from there if it still grows.
export function lasts(element, seconds, { grows }) {
  if (!element) return;
  if (grows) {
    element.dataset.counts = seconds;
    tick(element);
  } else {
    delete element.dataset.counts;
    element.textContent = duration(seconds);
  }
}
