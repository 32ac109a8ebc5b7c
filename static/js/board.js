// The board (and a node's page): tiles, queues and the headline follow the feed.
import { Feed, newer } from "./feed.js";
import { hook, mark, reload, say, soon } from "./marks.js";
import { ago, duration } from "./wording.js";

const LATE_S = 25;
const KEPT = "kept for another job";
const main = document.getElementById("main");
const only = main.dataset.only;
const ages = new Map();
const rebuild = soon(() => reload("pool"), 400);
const reclose = soon(() => reload("windows"), 100);
const restand = soon(() => reload("standing"), 100);
const retell = soon(() => reload("record"), 400);

const gigabytes = (mib) => (mib * 2 ** 20) / 1e9;

function gpu(frame) {
  const tile = document.querySelector(`[data-gpu="${CSS.escape(frame.id)}"]`);
  if (frame.type === "gone") return tile?.remove();
  if (!tile) return only && frame.data.node !== only ? undefined : rebuild();
  if (!newer(tile, frame.version)) return undefined;
  const data = reached(frame.data);
  if (only && tile.dataset.state !== data.state) retell();
  tile.dataset.state = data.state;
  tile.toggleAttribute("data-busy", data.busy);
  mark(tile, data.state);
  holder(hook(tile, "holder"), data);
  turn(tile, data);
  trouble(tile, data);
  const total = gigabytes(data.memory_mib);
  const used = data.memory_used_mib === null ? null : gigabytes(data.memory_used_mib);
  hook(tile, "load").value = data.utilization ?? 0;
  say(hook(tile, "load-text"), data.utilization === null ? "–" : `${Math.round(data.utilization)} %`);
  hook(tile, "memory").value = used ?? 0;
  say(hook(tile, "memory-text"), `${used === null ? "–" : used.toFixed(1)} / ${total.toFixed(0)} GB`);
  const heat = data.temperature_c === null ? "no temperature" : `${Math.round(data.temperature_c)} °C`;
  say(hook(tile, "heat"), data.error || heat + (data.power_w === null ? "" : ` · ${Math.round(data.power_w)} W`));
  return undefined;
}

// Of a node that is not heard of nothing is known but what was: its GPUs have no state of now.
function reached(data) {
  return ["LOST", "SILENT"].includes(data.node_standing) ? { ...data, state: "UNREACHABLE" } : data;
}

// Why a GPU gets no new work, since when, and what has to happen before it does again.
function trouble(tile, data) {
  const why = ["HEALTHY", "UNREACHABLE"].includes(data.state) ? "" : (data.why ?? "");
  const line = hook(tile, "why");
  say(line, why);
  line.title = why;
  line.hidden = hook(tile, "since").hidden = why === "";
  say(hook(tile, "next"), data.next ? ` · ${data.next}` : "");
  const changed = hook(tile, "changed");
  if (!data.since || changed.dateTime === data.since) return;
  changed.dateTime = data.since;
  changed.dataset.ago = "";
}

// When the job that has it must have left it, or until when it is kept for one that has it next.
function turn(tile, data) {
  const kept = data.idle === KEPT ? data.kept_until : null;
  const until = data.leaves_by ?? kept;
  const line = hook(tile, "turn");
  line.hidden = until === null;
  const words = data.leaves_by ? "asked to leave; its time ends" : "or free again";
  say(hook(line, "turn-words"), until === null ? "" : words);
  const time = hook(line, "turn-at");
  if (until === null || time.dateTime === until) return;
  time.dateTime = until;
  time.dataset.ago = "";
}

function holder(place, data) {
  if (data.idle === KEPT && data.kept_for) return keptFor(place, data.kept_for);
  const [tag, text, kind] = data.job
    ? ["a", data.job.name, ""]
    : data.busy
      ? ["span", "another project", "muted"]
      : data.idle
        ? ["span", data.idle, "muted"]
        : ["span", "free", "free"];
  const href = data.job ? `/jobs/${data.job.id}/` : "";
  const now = place.firstElementChild;
  if (now && now.textContent === text && (now.getAttribute("href") ?? "") === href) return undefined;
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  if (href) Object.assign(made, { href, title: text });
  return place.replaceChildren(made);
}

function keptFor(place, job) {
  const href = `/jobs/${job.id}/`;
  if (place.querySelector(".muted a")?.getAttribute("href") === href) return;
  const link = Object.assign(document.createElement("a"), { href, title: job.name, textContent: job.name });
  const made = Object.assign(document.createElement("span"), { className: "muted" });
  made.append("kept for ", link);
  place.replaceChildren(made);
}

function node(frame) {
  const section = document.querySelector(`[data-node="${CSS.escape(frame.id)}"]`);
  if (!section) return only && frame.id !== only ? undefined : rebuild();
  if (!newer(section, frame.version)) return undefined;
  // What may be done to it goes by its state; how it stands beside that is told anew in place.
  if (only && section.dataset.nodeState !== frame.data.state) return location.reload();
  if (only && section.dataset.state !== frame.data.standing) restand();
  if (Number(section.dataset.leftOut) !== frame.data.left_out.length) rebuild();
  section.dataset.state = frame.data.standing;
  mark(section.querySelector("header"), frame.data.standing);
  say(hook(section, "closed"), frame.data.why ?? "");
  hook(section, "closed").hidden = !frame.data.why;
  const heard = hook(section, "heard");
  if (heard && frame.data.last_heartbeat_at) heard.dateTime = frame.data.last_heartbeat_at;
  return undefined;
}

function windows(frame) {
  const told = document.getElementById("windows");
  if (!told || told.dataset.are === frame.data.are) return;
  reclose();
  rebuild();
  if (only) restand();
}

function queue(frame) {
  const section = document.querySelector(`[data-queue="${CSS.escape(frame.id)}"]`);
  if (!section || !newer(section, frame.version)) return;
  say(hook(section, "waiting"), String(frame.data.waiting));
  say(hook(section, "running"), String(frame.data.running));
  for (const level of frame.data.levels) {
    const row = section.querySelector(`[data-level="${CSS.escape(level.name)}"]`);
    if (!row) continue;
    say(hook(row, "waiting"), String(level.waiting));
    say(hook(row, "running"), String(level.running));
    row.classList.toggle("quiet", !level.waiting && !level.running);
    age(hook(row, "oldest"), level.oldest_wait_s);
  }
}

function tick(frame) {
  say(document.getElementById("headline"), frame.data.headline);
  const line = document.getElementById("tick");
  if (!line) return;
  if (!hook(line, "age") && frame.data.last_tick_at) {
    line.innerHTML = 'The scheduler looked <span data-hook="age"></span> and took <span data-hook="length"></span>; <span data-hook="leader"></span> leads.';
  }
  say(hook(line, "length"), `${(frame.data.last_tick_ms ?? 0).toFixed(1)} ms`);
  say(hook(line, "leader"), frame.data.holder ?? "nobody");
  age(hook(line, "age"), frame.data.age_s);
  const alarms = frame.data.alarms.map((alarm) => {
    const item = document.createElement("li");
    item.textContent = alarm.message;
    return item;
  });
  document.getElementById("alarms").replaceChildren(...alarms);
  const silence = frame.data.alarms.some((alarm) => alarm.code === "MASS_SILENCE");
  document.getElementById("silence")?.toggleAttribute("hidden", !silence);
}

// An age that goes on counting here: no two clocks are compared.
function age(element, seconds) {
  if (!element) return;
  if (seconds === null || Number.isNaN(seconds)) {
    ages.delete(element);
    say(element, "–");
  } else {
    ages.set(element, performance.now() - seconds * 1000);
  }
}

function count() {
  for (const [element, since] of ages) {
    const seconds = (performance.now() - since) / 1000;
    say(element, element.dataset.hook === "age" ? ago(seconds) : duration(seconds));
    if (element.dataset.hook === "age") document.getElementById("pulse").classList.toggle("late", seconds > LATE_S);
  }
}

for (const element of document.querySelectorAll("[data-age]")) {
  if (element.dataset.age) age(element, Number(element.dataset.age));
}
setInterval(count, 1000);
const apply = { gpu, node, windows, queue: only ? () => {} : queue, tick: only ? () => {} : tick };
new Feed({ board: true }, (frame) => apply[frame.object]?.(frame), {
  seq: Number(main.dataset.seq),
  onState: (state) => document.getElementById("pulse")?.classList.toggle("live", state === "live"),
});
