// Setting what an element shows, without touching what has not changed.
import { word } from "./wording.js";

export function hook(root, name) {
  return root.querySelector(`[data-hook="${name}"]`);
}

export function say(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

export function mark(root, state) {
  const chip = root?.querySelector(".state");
  if (!chip || chip.dataset.state === state) return;
  chip.dataset.state = state;
  chip.querySelector("[data-word]").textContent = word(state);
  const use = chip.querySelector("use");
  use.setAttribute("href", `${use.getAttribute("href").split("#")[0]}#${state.toLowerCase()}`);
}

// The part of the page with that id, rendered anew by the server; open questions stay open.
export function reload(id) {
  const open = [...document.querySelectorAll("details[open][id]")].map((details) => details.id);
  const source = location.pathname + location.search;
  return globalThis.htmx.ajax("GET", source, { target: `#${id}`, select: `#${id}`, swap: "outerHTML" }).then(() => {
    for (const each of open) document.getElementById(each)?.setAttribute("open", "");
  });
}

// Calls `act` soon, and once for many calls.
export function soon(act, delay = 150) {
  let timer = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      act();
    }, delay);
  };
}
