// The form: only the fields of the chosen strategy, only the priorities of the chosen queue and project.

const form = document.querySelector("form.form");

function strategy() {
  const chosen = form.querySelector("input[name=strategy]:checked");
  for (const part of form.querySelectorAll("[data-for]")) {
    part.hidden = !part.dataset.for.split(" ").includes(chosen?.value);
  }
  for (const row of form.querySelectorAll("[data-row]")) {
    row.hidden = Number(row.dataset.row) > Number(chosen?.dataset.most ?? Infinity);
    if (row.hidden) row.querySelector("select").value = "";
  }
}

function priorities() {
  const { queue, project } = form.elements;
  const select = form.elements.priority;
  for (const option of select.options) {
    const { queues, projects } = option.dataset;
    if (queues === undefined) continue; // none of ours: it is refused by name
    option.disabled = !queues.split(" ").includes(queue.value) || !projects.split(" ").includes(project.value);
  }
  if (select.selectedOptions[0]?.disabled) select.value = "Normal";
}

function zoneAt(moment) {
  const ahead = -moment.getTimezoneOffset();
  const two = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  return ahead ? `${ahead < 0 ? "-" : "+"}${two(ahead / 60)}:${two(ahead % 60)}` : "Z";
}

// An instant without a zone is one of the reader's own clock, and says so.
function inZone(input) {
  const typed = input.value.trim().replace(" ", "T");
  const moment = new Date(typed);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(typed) && !Number.isNaN(moment.valueOf())) {
    input.value = typed + zoneAt(moment);
  }
}

// A chosen file becomes the text, so that it can be read and mended before it is sent.
async function typedFrom(input) {
  const [file] = input.files;
  if (!file) return;
  form.elements.recipe.value = await file.text();
  input.value = "";
}

// Only where another output of a job is chosen is there one to type.
function typed() {
  for (const input of form.querySelectorAll("[data-typed]")) {
    const select = input.parentElement.querySelector("select");
    input.hidden = select.value !== "@";
  }
}

// There is always one more line for a job to wait for.
function oneMore(input) {
  const rows = [...form.querySelectorAll("[name=after]")];
  if (rows.at(-1) !== input || !input.value.trim()) return;
  const next = input.cloneNode();
  next.removeAttribute("id");
  next.value = "";
  next.placeholder = "and no other";
  next.setAttribute("aria-label", `Wait for, job ${rows.length + 1}`);
  input.after(next);
}

form.addEventListener("input", (event) => {
  if (event.target.name === "after") oneMore(event.target);
});
form.addEventListener("change", (event) => {
  if (event.target.name === "strategy") strategy();
  if (event.target.name === "recipe_file") typedFrom(event.target);
  if ("instant" in event.target.dataset) inZone(event.target);
  if (["queue", "project"].includes(event.target.name)) priorities();
  typed();
});
form.addEventListener("submit", (event) => {
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => delete form.dataset.sent);

const BY_OTHER_NAMES = { replaces: "in_place", models: "model", weights: "weight" };

function inputOf(name) {
  const row = /^models\.(\d+)$/.exec(name);
  if (row) return form.querySelectorAll("[data-row]")[Number(row[1])]?.querySelector("select");
  const found = form.elements.namedItem(BY_OTHER_NAMES[name] ?? name);
  return found instanceof RadioNodeList ? found[0] : found;
}

// What a plan refuses stands beside its field too, as it would after submitting; the next plan takes it away.
function beside(panel) {
  for (const list of form.querySelectorAll("ul.errors")) list.remove();
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
  for (const fault of panel.querySelectorAll("[data-beside]")) {
    const input = inputOf(fault.dataset.beside);
    const field = input?.closest(".field");
    if (!field) continue;
    const id = `e_${fault.dataset.beside}`;
    let list = document.getElementById(id);
    if (!list) {
      list = Object.assign(document.createElement("ul"), { className: "errors", id });
      field.insertBefore(list, field.querySelector(":scope > small"));
    }
    list.append(Object.assign(document.createElement("li"), { textContent: fault.textContent }));
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
    const folded = input.closest("details");
    if (folded) folded.open = true;
  }
}

document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.id === "plan") beside(event.target);
});
if (form.elements.strategy) strategy();
typed();
priorities();
document.querySelector("[aria-invalid=true]")?.focus();
