// The socket: subscribes, hands frames on, acknowledges, and comes back with the last number it had when it is lost.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
// The server says something every 10 s at least; silence for this long is a lost socket that nobody closed.
const SILENCE = 25_000;

export class Feed {
  constructor(wanted, onFrame, { seq = 0, onState = () => {} } = {}) {
    this.wanted = wanted;
    this.onFrame = onFrame;
    this.onState = onState;
    this.seq = seq;
    this.wait = FIRST_WAIT;
    this.lostAt = null;
    this.heardAt = Date.now();
    this.banner = document.getElementById("stale");
    addEventListener("pagehide", () => this.stop());
    addEventListener("online", () => this.socket?.readyState === WebSocket.CLOSED && this.open());
    this.watch = setInterval(() => this.listen(), 5000);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/feed/?since=${this.seq}`);
    this.socket = socket;
    socket.addEventListener("open", () => {
      this.wait = FIRST_WAIT;
      this.heardAt = Date.now();
      socket.send(JSON.stringify({ subscribe: this.wanted }));
      this.fresh();
    });
    socket.addEventListener("message", (event) => this.hear(JSON.parse(event.data)));
    socket.addEventListener("close", () => this.socket === socket && this.lost());
  }

  hear(frame) {
    this.heardAt = Date.now();
    this.seq = Math.max(this.seq, frame.seq);
    if (frame.type === "error") return;
    if (frame.type === "stale") {
      this.warn("the server can't read its database just now");
      return;
    }
    if (this.lostAt) this.fresh();
    this.onFrame(frame);
    // Frames come in bursts; one word after each burst tells the server how far this page has come.
    this.ackTimer ??= setTimeout(() => {
      this.ackTimer = null;
      if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ ack: this.seq }));
    }, 200);
  }

  listen() {
    if (this.socket.readyState === WebSocket.OPEN && Date.now() - this.heardAt > SILENCE) this.socket.close();
  }

  fresh() {
    this.lostAt = null;
    this.banner.hidden = true;
    this.onState("live");
  }

  warn(why) {
    this.lostAt ??= new Date();
    const since = this.lostAt.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
    this.banner.textContent = `Stale since ${since}: ${why}. Trying again; reload the page if this stays.`;
    this.banner.hidden = false;
    this.onState("stale");
  }

  lost() {
    this.warn("the connection was lost");
    this.timer = setTimeout(() => this.open(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(LONGEST_WAIT, this.wait * 2);
  }

  stop() {
    clearTimeout(this.timer);
    clearInterval(this.watch);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}

// True, and remembered, when the frame is not older than what the element shows.
export function newer(element, version) {
  if (version < Number(element.dataset.version)) return false;
  element.dataset.version = version;
  return true;
}
