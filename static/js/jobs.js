// The list: rows follow the feed; jobs that are not on it yet are offered, not pushed in under the reader's hand.
import { lasts } from "./counting.js";
import { Feed, newer } from "./feed.js";
import { hook, mark, reload, say, soon } from "./marks.js";
import { duration } from "./wording.js";

const LIVE = ["DISPATCHING", "RUNNING", "PREEMPTING", "CANCELLING"];
// The state in which each job that is not on the page was last heard of: only a new one is worth a question.
const elsewhere = new Map();
const ask = soon(look, 1000);

function why(cell, job) {
  const live = LIVE.includes(job.state);
  const unheard = job.reasons.some((reason) => reason.code === "UNHEARD");
  if (live && job.progress && !unheard) {
    const percent = Math.min(100, Math.trunc((100 * job.progress.step) / job.progress.total));
    let bar = cell.querySelector("progress");
    if (!bar) {
      bar = Object.assign(document.createElement("progress"), { max: 100, ariaLabel: "Progress" });
      cell.replaceChildren(bar, document.createElement("small"));
    }
    bar.value = percent;
    const left = job.progress.eta_s === null ? "" : `, ${duration(job.progress.eta_s)} left`;
    say(cell.querySelector("small"), `${percent} %${left}`);
    return;
  }
  const text = job.reasons[0]?.message ?? (job.error ?? "").split("\n")[0];
  const line = document.createElement("span");
  line.textContent = text.length > 110 ? `${text.slice(0, 109)}…` : text;
  cell.replaceChildren(line);
}

// How long it waited for its first start, and how long its runs took.
function times(line, job) {
  const began = job.started_at ?? job.ended_at;
  if (began) lasts(hook(line, "waited"), (Date.parse(began) - Date.parse(job.submitted_at)) / 1000, { grows: false });
  const runs = Boolean(job.attempt_started_at) && LIVE.includes(job.state);
  if (job.started_at) lasts(hook(line, "ran"), job.run_s, { grows: runs });
}

function row(frame) {
  const line = document.querySelector(`tr[data-job="${CSS.escape(frame.id)}"]`);
  if (!line) {
    if (!frame.data || elsewhere.get(frame.id) === frame.data.state) return;
    elsewhere.set(frame.id, frame.data.state);
    ask();
    return;
  }
  if (!frame.data || !newer(line, frame.version)) return;
  const moved = line.querySelector(".state").dataset.state !== frame.data.state;
  mark(hook(line, "state"), frame.data.state);
  why(hook(line, "why"), frame.data);
  times(line, frame.data);
  const ended = Boolean(frame.data.ended_at);
  if (ended) line.querySelector("input[name=job]")?.remove();
  if (moved) {
    line.classList.add("moved");
    setTimeout(() => line.classList.remove("moved"), 1500);
  }
}

// The feed also repeats old news and knows no filter: the server says which jobs this address lists by now.
async function look() {
  const source = location.search;
  const answer = await fetch(`${document.getElementById("list").dataset.ids}${source}`);
  if (!answer.ok || source !== location.search) return;
  const { jobs } = await answer.json();
  offer(jobs.filter((id) => elsewhere.has(id) && !document.querySelector(`tr[data-job="${CSS.escape(id)}"]`)).length);
}

function offer(count) {
  const note = document.getElementById("fresh");
  note.hidden = count === 0;
  if (!count) return;
  const more = count === 1 ? "1 job has changed" : `${count} jobs have changed`;
  const link = Object.assign(document.createElement("a"), { href: location.href, textContent: "Show" });
  link.addEventListener("click", (event) => {
    event.preventDefault();
    reload("list");
  });
  note.replaceChildren(`${more} since this list was made. `, link);
}

new Feed({ jobs: true }, (frame) => frame.object === "job" && row(frame), { seq: Number(document.getElementById("main").dataset.seq) });
