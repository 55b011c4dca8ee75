// The stations of every batch at one moment, and the control of that moment. Needs no kernel.
const ROW = 44, TOP = 34, TOKEN = { width: 34, height: 26 }, GAP = 5;
const PLAYS_FOR_S = 20; // the whole trace, at the speed of 1
const SVG = "http://www.w3.org/2000/svg";

const node = (name, attributes = {}, text = "") => {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.textContent = text;
  return made;
};

// Columns from left to right; what a trace does not have takes no room.
const placesOf = (life) => {
  if (!life.workers) return { hands: { x: 20, width: 150 }, consumer: { x: 230, width: 150 }, width: 420 };
  const places = { index: { x: 10, width: 176 }, hands: { x: 200, width: 128 } };
  let x = 348;
  for (const name of ["result", ...(life.pins ? ["pinned"] : []), "reorder"]) {
    places[name] = { x, width: 132 };
    x += 148;
  }
  places.consumer = { x: x + 4, width: 128 };
  return { ...places, width: x + 142 };
};

const TITLES = {
  index: "index queues", hands: "workers", result: "result queue", pinned: "pinned",
  reorder: "buffer", consumer: "consumer",
};

const past = (at, t) => at !== null && at <= t;

const stationOf = (batch, t) => {
  if (past(batch.released, t)) return "gone";
  if (past(batch.delivered, t)) return "consumer";
  if (batch.worker >= 0) {
    if (past(batch.taken, t)) return "reorder";
    if (past(batch.pinned, t)) return "pinned";
    if (past(batch.ready, t)) return "result";
  }
  if (past(batch.started, t)) return "hands";
  if (past(batch.dispatched, t)) return "index";
  return "before";
};

const arrival = { index: "dispatched", hands: "started", result: "ready", pinned: "pinned", reorder: "taken", consumer: "delivered" };

class Stage {
  constructor(life) {
    this.life = life;
    this.places = placesOf(life);
    const rows = Math.max(life.workers, 3);
    this.height = TOP + rows * ROW + 8;
    this.svg = node("svg", { viewBox: `0 0 ${this.places.width} ${this.height}`, "aria-hidden": "true" });
    this.svg.style.maxWidth = `${this.places.width * 1.15}px`;
    this.drawPlaces();
    this.tokens = life.batches.map((batch) => this.token(batch));
  }

  row(worker) { return TOP + worker * ROW; }

  drawPlaces() {
    const { places, life, svg } = this;
    for (const name in TITLES) {
      const place = places[name];
      if (!place) continue;
      const title = name === "hands" && !life.workers ? "main process" : TITLES[name];
      svg.append(node("text", { x: place.x, y: 18 }, title));
      const ownRows = name === "index" || name === "hands";
      const n = ownRows ? Math.max(life.workers, 1) : 1;
      for (let i = 0; i < n; i++) {
        const height = ownRows || name === "consumer" ? ROW - 8 : this.height - TOP - 12;
        svg.append(node("rect", {
          class: name === "hands" || name === "consumer" ? "hands" : "place",
          x: place.x, y: this.row(i), width: place.width, height, rx: 5,
        }));
        if (name === "hands" && life.workers) {
          svg.append(node("text", { class: "quiet", x: place.x + 48, y: this.row(i) + 23 }, `worker ${i}`));
        }
      }
    }
    this.waiting = node("text", { class: "waits", x: places.consumer.x + 10, y: this.row(0) + 23 }, "waits");
    this.count = node("text", { class: "quiet", x: places.consumer.x, y: this.row(1) + 14 });
    svg.append(this.waiting, this.count);
  }

  token(batch) {
    const group = node("g", { class: "token" });
    const { width, height } = TOKEN;
    const box = node("rect", { class: "box", width, height, rx: 4, fill: batch.fill, stroke: batch.fill });
    const done = node("rect", { y: height + 2, width: 0, height: 3, fill: batch.fill, stroke: "none" });
    const name = node("text", { x: width / 2, y: 18, fill: batch.ink }, batch.name);
    group.append(box, done, name);
    this.svg.append(group);
    return { group, box, done, name, batch };
  }

  put(token, x, y, opacity) {
    token.group.style.transform = `translate(${x}px, ${y}px)`;
    token.group.style.opacity = opacity;
  }

  // What is where at time t, in words too.
  show(t) {
    const { life, places } = this;
    const inside = {};
    let gone = 0;
    for (const token of this.tokens) {
      const station = stationOf(token.batch, t);
      token.station = station;
      if (station === "gone") gone++;
      inside[station] ??= [];
      inside[station].push(token);
    }
    const steps = { width: TOKEN.width + GAP, height: TOKEN.height + GAP };
    for (const token of inside.before ?? []) this.put(token, -60, this.row(Math.max(0, token.batch.worker)) + 5, 0);
    for (const token of inside.gone ?? []) this.put(token, places.width + 20, this.row(0) + 5, 0);
    for (const name of ["index", "hands", "result", "pinned", "reorder", "consumer"]) {
      const place = places[name];
      const tokens = (inside[name] ?? []).sort((a, b) => a.batch[arrival[name]] - b.batch[arrival[name]]);
      const before = {};
      for (const [i, token] of tokens.entries()) {
        const worker = Math.max(0, token.batch.worker);
        const filled = name !== "index" && name !== "hands";
        token.group.classList.toggle("index", !filled);
        token.name.style.fill = filled ? token.batch.ink : "";
        let done = 0;
        if (!place) {
          this.put(token, -60, this.row(worker) + 5, 0);
          continue;
        }
        if (name === "index") {
          const ahead = (before[worker] ?? -1) + 1;
          before[worker] = ahead;
          const x = place.x + place.width - (ahead + 1) * steps.width;
          this.put(token, x, this.row(worker) + 5, x < place.x ? 0 : 1);
        } else if (name === "hands") {
          this.put(token, place.x + 6, this.row(worker) + 4, 1);
          const { started, ready } = token.batch;
          if (ready !== null && ready > started) done = (t - started) / (ready - started);
        } else if (name === "consumer") {
          this.put(token, place.x + 6, this.row(0) + 5, 1);
        } else {
          const across = Math.floor((place.width - GAP) / steps.width);
          const down = Math.floor(i / across);
          const y = TOP + 5 + down * steps.height;
          this.put(token, place.x + GAP + (i % across) * steps.width, y, y > this.height - 36 ? 0 : 1);
        }
        token.done.setAttribute("width", (TOKEN.width * Math.min(1, Math.max(0, done))).toFixed(1));
      }
    }
    const taken = inside.consumer ?? [];
    const begun = gone + taken.length > 0 || (inside.hands ?? []).length > 0;
    const more = gone + taken.length < life.batches.filter((each) => each.delivered !== null).length;
    const waits = !taken.length && more && begun;
    this.waiting.style.display = waits ? "" : "none";
    this.count.textContent = `${gone} done`;
    return this.words(inside, waits, gone, taken);
  }

  words(inside, waits, gone, taken) {
    const named = (tokens) => tokens.map((token) => token.batch.name).join(", ");
    const said = [];
    const hands = (inside.hands ?? []).sort((a, b) => a.batch.worker - b.batch.worker);
    const who = (token) => token.batch.worker < 0 ? "the main process" : `worker ${token.batch.worker}`;
    if (hands.length > 3) said.push(`${hands.length} workers read batches ${named(hands)}`);
    else said.push(...hands.map((token) => `${who(token)} reads batch ${token.batch.name}`));
    if (this.life.workers && !hands.length) said.push("no worker has anything to do");
    for (const name of ["result", "pinned", "reorder"]) {
      if ((inside[name] ?? []).length) {
        said.push(`in the ${name === "pinned" ? "queue of pinned batches" : TITLES[name]}: ${named(inside[name])}`);
      }
    }
    if (taken.length) said.push(`the consumer has batch ${named(taken)}`);
    else said.push(waits ? "the consumer waits" : gone ? "all delivered" : "nothing has begun");
    return `${said.join(" · ")}.`;
  }
}

// A line on the timeline of the widget that this is part of.
const moveCursor = (el, t) => {
  const root = el.closest(".loaderviz-explore, .loaderviz-player");
  const gd = root?.querySelector(".js-plotly-plot");
  if (!gd?._fullLayout?.xaxis) return;
  let line = gd.querySelector(".loaderviz-cursor");
  if (t === null) return line?.remove();
  if (!line) {
    line = document.createElement("div");
    line.className = "loaderviz-cursor";
    gd.style.position = "relative";
    gd.append(line);
  }
  const { xaxis, _size } = gd._fullLayout;
  const x = xaxis.l2p(t);
  const visible = x >= 0 && x <= xaxis._length;
  Object.assign(line.style, {
    left: `${xaxis._offset + x}px`, top: `${_size.t}px`, height: `${_size.h}px`,
    display: visible ? "" : "none",
  });
};

const seconds = (t) => (t < 1 ? `${(1000 * t).toFixed(0)} ms` : `${t.toFixed(2)} s`);

export default {
  render({ model, el }) {
    const root = document.createElement("div");
    root.className = "loaderviz-scene";
    const bar = document.createElement("div");
    bar.className = "time";
    const button = (text, label) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = "jupyter-button widget-button";
      made.textContent = text;
      made.setAttribute("aria-label", label);
      made.title = label;
      return made;
    };
    const run = button("▶ Play", "Play");
    const back = button("‹", "One step back");
    const on = button("›", "One step on");
    const time = Object.assign(document.createElement("input"), { type: "range", min: 0, step: "any" });
    time.setAttribute("aria-label", "time");
    const readout = document.createElement("span");
    const speed = document.createElement("select");
    speed.setAttribute("aria-label", "speed");
    for (const each of [0.25, 0.5, 1, 2, 4]) speed.add(new Option(`${each}× speed`, String(each), each === 1, each === 1));
    bar.append(run, back, on, time, readout, speed);
    const words = document.createElement("p");
    words.className = "words";
    words.setAttribute("role", "status");
    root.append(bar, words);
    el.append(root);

    let stage = null, t = 0, end = 0, stops = [], playing = 0;

    const show = (jump) => {
      if (!stage) return;
      root.classList.toggle("jump", jump);
      const said = stage.show(t);
      words.textContent = said[0].toUpperCase() + said.slice(1);
      time.value = String(t);
      readout.textContent = seconds(t);
      moveCursor(el, t);
    };
    const stop = () => {
      cancelAnimationFrame(playing);
      playing = 0;
      run.textContent = "▶ Play";
    };
    const go = () => {
      if (t >= end) t = 0;
      run.textContent = "❚❚ Pause";
      let last = performance.now();
      const frame = (now) => {
        if (!root.isConnected) return stop();
        t = Math.min(end, t + ((now - last) / 1000) * (end / PLAYS_FOR_S) * Number(speed.value));
        last = now;
        show(false);
        if (t >= end) return stop();
        playing = requestAnimationFrame(frame);
      };
      playing = requestAnimationFrame(frame);
    };
    const load = () => {
      stop();
      if (stage) stage.svg.remove();
      stage = null;
      const text = model.get("life");
      root.style.display = text ? "" : "none";
      if (!text) return moveCursor(el, null);
      const life = JSON.parse(text);
      stage = new Stage(life);
      root.insertBefore(stage.svg, words);
      end = life.end_s;
      time.max = String(end);
      stops = [...new Set(life.batches.flatMap((each) => Object.values(arrival).concat("released")
        .map((name) => each[name]).filter((at) => at !== null)))].sort((a, b) => a - b);
      // Begin with something to see: the first batch in the consumer's hands.
      const first = Math.min(...life.batches.map((each) => each.delivered ?? Infinity));
      t = Number.isFinite(first) ? first : 0;
      show(true);
    };
    run.addEventListener("click", () => (playing ? stop() : go()));
    time.addEventListener("input", () => { stop(); t = Number(time.value); show(true); });
    on.addEventListener("click", () => {
      stop();
      t = stops.find((at) => at > t + 1e-9) ?? end;
      show(false);
    });
    back.addEventListener("click", () => {
      stop();
      t = stops.findLast((at) => at < t - 1e-9) ?? 0;
      show(false);
    });
    model.on("change:life", load);
    load();
    // The timeline is drawn after this, and drawn anew when the window changes.
    const again = setInterval(() => { if (root.isConnected && stage && !playing) moveCursor(el, t); }, 500);
    return () => {
      stop();
      clearInterval(again);
      model.off("change:life", load);
      moveCursor(el, null);
    };
  },
};
