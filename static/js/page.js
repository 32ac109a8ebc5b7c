// On every page: times in the viewer's zone, relative beside absolute; what lasts counts on; one open question at a time.
import { count } from "./counting.js";
import { ago } from "./wording.js";

const SAME_YEAR = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
const FULL = { dateStyle: "full", timeStyle: "long" };

function absolute(moment) {
  const options = moment.getFullYear() === new Date().getFullYear() ? SAME_YEAR : { ...SAME_YEAR, year: "numeric" };
  return moment.toLocaleString(undefined, options);
}

export function localise(root = document) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    // What is expected is never past: a start whose time has come is now, until the page hears more.
    const since = "due" in time.dataset && moment < now ? "now" : ago((now - moment) / 1000);
    const text = "ago" in time.dataset ? since : `${absolute(moment)} (${since})`;
    if (time.textContent !== text) time.textContent = text;
    time.title = moment.toLocaleString(undefined, FULL);
  }
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
document.getElementById("zone").textContent = zone;
// So that reports know whose days are meant.
document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
function pass() {
  localise();
  count();
}

pass();
setInterval(pass, 1000);
document.addEventListener("htmx:afterSettle", pass);
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.ask[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.ask[open]")) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
