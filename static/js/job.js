// A job's page: progress moves with the feed, the rest is rendered anew by the server, the log grows.
import { Feed } from "./feed.js";
import { hook, mark, reload, say, soon } from "./marks.js";
import { duration, rate, stepsOf } from "./wording.js";

const main = document.getElementById("main");
const log = document.getElementById("log");
let shown = null;

const renew = soon(() => reload("job"), 100);
// The chart of a search grows with its progress, and so seldom that looking at it costs the server little.
const redraw = soon(() => document.getElementById("search") && reload("search"), 2000);

// What the server renders; progress alone does not make it render anew.
function outline(job) {
  const start = job.starting && [job.starting, job.transfer?.node, job.transfer?.what];
  return JSON.stringify([job.state, job.attempt, job.preempted, job.reasons, job.artifacts.length, job.error, job.gpus.length, start]);
}

function progress(job) {
  const meter = document.querySelector('[data-hook="progress"]');
  if (!meter || !job.progress || job.state === "QUEUED" || job.state === "HELD") return;
  const { step, total, eta_s: eta } = job.progress;
  const percent = Math.min(100, Math.trunc((100 * step) / total));
  meter.hidden = false;
  meter.querySelector("progress").value = percent;
  say(hook(meter, "percent"), `${percent} %`);
  say(hook(meter, "step"), stepsOf(job.progress));
  say(hook(meter, "rate"), job.progress.rate ? ` · ${rate(job.progress)}` : "");
  say(hook(meter, "eta"), eta === null ? "" : ` · ${duration(eta)} left`);
}

function job(frame) {
  const box = document.getElementById("job");
  if (frame.type === "gone") return location.reload();
  if (frame.version < Number(box.dataset.version)) return undefined;
  box.dataset.version = frame.version;
  progress(frame.data);
  if (frame.data.state === "RUNNING") redraw();
  const transfer = document.querySelector('[data-hook="transfer"]');
  if (transfer) {
    say(transfer, frame.data.transfer?.message ?? "");
    transfer.hidden = !frame.data.transfer;
  }
  const now = outline(frame.data);
  const moved = frame.data.state !== box.dataset.state;
  if (moved) {
    box.dataset.state = frame.data.state;
    mark(box, frame.data.state);
  }
  // The first frame may tell already of a silence that began after the page was made.
  const unheard = frame.data.reasons.some((reason) => reason.code === "UNHEARD");
  if (moved || unheard !== "unheard" in box.dataset || (shown !== null && shown !== now)) renew();
  shown = now;
  if (frame.log) lengthen(frame.log);
  return undefined;
}

// Which windows there are changes when it starts, and what would help.
function windows(frame) {
  if (document.getElementById("job").dataset.windows !== frame.data.are) renew();
}

let reading = false;
async function lengthen({ attempt, end }) {
  if (log.dataset.chosen && log.dataset.chosen !== String(attempt)) return;
  if (log.dataset.attempt !== String(attempt)) {
    log.textContent = "";
    Object.assign(log.dataset, { attempt, next: 0 });
    document.getElementById("log-cut").hidden = true;
  }
  if (reading || end <= Number(log.dataset.next)) return;
  reading = true;
  const before = Number(log.dataset.next);
  try {
    const node = log.dataset.node ? `&node=${encodeURIComponent(log.dataset.node)}` : "";
    const answer = await fetch(`${log.dataset.url}?attempt=${attempt}&offset=${before}${node}`);
    if (!answer.ok) return;
    const piece = await answer.json();
    const following = log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
    log.append(piece.text);
    log.dataset.next = piece.next;
    document.getElementById("log-none").hidden = log.textContent !== "";
    if (following) log.scrollTop = log.scrollHeight;
  } finally {
    reading = false;
  }
  // The end told counts what all its nodes wrote: where nothing came there is no more of this one.
  if (end > Number(log.dataset.next) && Number(log.dataset.next) > before) await lengthen({ attempt, end });
}

// The GPU time that it has used, and would lose, is in the words of the page: renewed while time passes for the job.
setInterval(() => document.querySelector("#ask-cancel, #ask-force") && renew(), 60_000);
log.scrollTop = log.scrollHeight;
const apply = { job, windows };
new Feed({ job: main.dataset.job }, (frame) => apply[frame.object]?.(frame), { seq: Number(main.dataset.seq) });
