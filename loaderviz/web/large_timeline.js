// A large timeline: decides what to show at this zoom, and what is under the mouse. Draws over
// plotly's own marks, which are there where no script runs; knows nothing of plotly but its axes.
const MOST_BOXES = 60;  // on their way at a time; more look like a barcode

const THEMES = {
  light: { busy: "#5b9bc8", track: "rgba(31,35,40,.045)", edge: "rgba(255,255,255,.9)",
    waitFill: "rgba(213,94,0,.16)" },
  dark: { busy: "#4f8fbc", track: "rgba(230,232,235,.06)", edge: "rgba(21,24,28,.9)",
    waitFill: "rgba(213,94,0,.16)" },
};

// Called whenever plotly has drawn: a figure may become a large one, or another, or none.
async function tendLarge(gd) {
  const packed = gd.layout.meta?.loaderviz?.large;
  const large = gd.loadervizLarge;
  if (!packed) {
    if (large) { large.canvas.remove(); large.tip.remove(); }
    gd.classList.remove("loaderviz-drawn", "loaderviz-strip");
    gd.loadervizLarge = null;
    return;
  }
  if (large && large.packed.data === packed.data) { large.draw(); return; }
  if (typeof DecompressionStream === "undefined" || gd.loadervizReads === packed.data) return;
  gd.loadervizReads = packed.data;
  const rows = await decodeRows(packed);
  if (gd.loadervizReads !== packed.data) return;
  gd.loadervizReads = null;
  if (!gd.on) return;  // plotly has put the figure away meanwhile
  prepare(rows);
  if (large) { large.canvas.remove(); large.tip.remove(); }
  gd.loadervizLarge = showLarge(gd, packed, rows, large);
  gd.loadervizLarge.draw();
}

// What is not in the table but follows from it. The thread that pins is at work on a batch since
// both it and the batch were ready, at most.
function prepare(rows) {
  const known = (values) => (values ? values.filter((each) => !Number.isNaN(each)) : new Float64Array(0));
  const both = rows.ready_s && rows.delivered_s
    ? rows.delivered_s.filter((_, i) => !Number.isNaN(rows.ready_s[i])) : null;
  rows.begins = new Float64Array(rows.n).fill(Infinity);
  rows.ends = new Float64Array(rows.n).fill(-Infinity);
  for (const name of ["started_s", "ready_s", "requested_s", "delivered_s", "released_s", "device_end_s"]) {
    (rows[name] || []).forEach((at, i) => {  // NaN is neither below nor above
      if (at < rows.begins[i]) rows.begins[i] = at;
      if (at > rows.ends[i]) rows.ends[i] = at;
    });
  }
  rows.events = { arrive: known(rows.ready_s).sort(), leave: known(both).sort(), strip: !!rows.batch };
  if (!rows.pin) return;
  const order = [...rows.pinned_s.keys()].filter((i) => !Number.isNaN(rows.pinned_s[i]))
    .sort((a, b) => rows.pinned_s[a] - rows.pinned_s[b]);
  const latest = {};
  rows.pinning_s = new Float64Array(rows.n).fill(NaN);
  for (const i of order) {
    const [ready, free] = [rows.ready_s[i], latest[rows.pin[i]] ?? -Infinity];
    rows.pinning_s[i] = Math.min(ready > free || Number.isNaN(ready) ? ready : free, rows.pinned_s[i]);
    latest[rows.pin[i]] = rows.pinned_s[i];
  }
}

function showLarge(gd, packed, rows, before) {
  const canvas = document.createElement("canvas");
  canvas.className = "loaderviz-canvas";
  const tip = document.createElement("div");
  tip.className = "loaderviz-tip";
  const self = { packed, rows, canvas, tip, level: null, pinned: null, batch: null };

  self.draw = () => {
    const { xaxis, yaxis, yaxis2, width, height, _size } = gd._fullLayout || {};
    if (!xaxis || !_size) return;
    const paper = gd.querySelector(".svg-container");
    if (canvas.parentNode !== paper) {
      paper.querySelector(".main-svg").after(canvas);
      paper.append(tip);
    }
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const [from, to] = xaxis.range.map(Number);
    if (self.view && (self.view.from !== from || self.view.to !== to)) tip.style.display = "none";
    const nBins = Math.max(Math.ceil(xaxis._length / BIN_PX), 1);
    const secondsPerPx = (to - from) / xaxis._length;
    const view = {
      from, to, nBins, binS: BIN_PX * secondsPerPx, batch: self.batch,
      left: xaxis._offset, width: xaxis._length,
      xOf: (at) => xaxis._offset + (at - from) / secondsPerPx,
      yOf: (lane) => yaxis._offset + yaxis.l2p(lane),
      lanePx: Math.abs(yaxis.l2p(1) - yaxis.l2p(0)),
      countY: yaxis2 && yaxis2.visible !== false ? (n) => yaxis2._offset + yaxis2.l2p(n) : null,
      labels: gd.layout.meta.loaderviz.lanes,
      theme: THEMES[gd.classList.contains("loaderviz-dark") ? "dark" : "light"],
      font: gd._fullLayout.font.family,
    };
    self.view = view;
    const found = inView(rows, from, to);
    const ctx = canvas.getContext("2d");
    ctx.scale(scale, scale);
    ctx.save();
    ctx.beginPath();
    ctx.rect(view.left, 0, view.width, height);
    ctx.clip();
    drawReady(ctx, rows, view);
    if (found) drawBoxes(ctx, rows, view, found); else drawBands(ctx, rows, view);
    if (found && self.batch !== null) drawWay(ctx, rows, view, self.batch);
    ctx.restore();
    self.level = gd.dataset.level = found ? "boxes" : "bands";
    gd.dataset.batch = self.batch === null ? "" : self.batch;
    gd.classList.add("loaderviz-drawn");
    gd.classList.toggle("loaderviz-strip", rows.events.strip);
  };

  const light = (batch) => { if (batch !== self.batch) { self.batch = batch; self.draw(); } };
  self.at = (event) => mouseIn(canvas, event);
  self.hover = (event) => {
    const [x, y] = self.at(event);
    const box = boxAt(self.view, x, y);
    const words = event.buttons ? null : wordsAt(rows, self.view, box, x, y);
    light(box ? box.i : self.pinned);
    tip.style.display = words ? "block" : "none";
    if (!words) return;
    tip.innerHTML = words;
    tip.style.borderLeftColor = box && box.kind !== "wait" ? colourOf(rows.batch[box.i]) : "";
    putBeside(tip, canvas, [x, y]);
  };
  self.leave = () => { tip.style.display = "none"; light(self.pinned); };
  self.click = (event) => {
    const box = boxAt(self.view, ...self.at(event));
    self.pinned = !box || box.i === self.pinned ? null : box.i;
    light(self.pinned);
  };
  if (!before && !gd.loadervizListens) listen(gd);
  return self;
}

// One set of listeners a figure, whichever recording it shows.
function listen(gd) {
  gd.loadervizListens = true;
  const to = (act) => (event) => {
    if (gd.loadervizLarge?.view) gd.loadervizLarge[act](event);
  };
  let pressed = null;
  gd.addEventListener("mousemove", to("hover"));
  gd.addEventListener("mouseleave", to("leave"));
  gd.addEventListener("mousedown", (event) => { pressed = [event.clientX, event.clientY]; }, true);
  window.addEventListener("mouseup", (event) => {
    const still = pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 4;
    if (still && gd.isConnected) to("click")(event);
    pressed = null;
  }, true);
  gd.on("plotly_relayouting", () => gd.loadervizLarge?.draw());
}

// The batches that are on their way somewhere between the two times; null: too many.
function inView(rows, from, to) {
  const found = [];
  for (let i = 0; i < rows.n; i++) {
    if (rows.ends[i] >= from && rows.begins[i] <= to && found.push(i) > MOST_BOXES) return null;
  }
  return found;
}

function boxAt(view, x, y) {
  for (let k = view.boxes ? view.boxes.length - 1 : -1; k >= 0; k--) {
    const box = view.boxes[k];
    if (x >= box.x && x <= box.x + box.wide && y >= box.y && y <= box.y + box.px) return box;
  }
  return null;
}

function wordsAt(rows, view, box, x, y) {
  if (box) return wordsOfBox(rows, view, box);
  if (!view.bands || x < view.left || x >= view.left + view.width) return null;
  const lane = view.labels.findIndex((_, i) => Math.abs(view.yOf(i) - y) < 0.45 * view.lanePx);
  return lane < 0 ? null : wordsOfBand(view, lane, Math.floor((x - view.left) / BIN_PX));
}

// From dispatch to the consumer, as adopt_figures.js draws it.
function drawWay(ctx, rows, view, i) {
  const stops = [["dispatched_s", 0], ["started_s", rows.lane[i]], ["ready_s", rows.lane[i]],
    ["pinned_s", rows.pin ? rows.pin[i] : 0], ["delivered_s", 0]]
    .filter(([time]) => rows[time] && !Number.isNaN(rows[time][i]))
    .map(([time, lane]) => [view.xOf(rows[time][i]), view.yOf(lane)]);
  ctx.strokeStyle = ctx.fillStyle = view.theme === THEMES.dark ? "#e6e8eb" : "#1f2328";
  ctx.lineWidth = 1.8;
  ctx.setLineDash([2, 3]);
  ctx.beginPath();
  for (const stop of stops) ctx.lineTo(...stop);
  ctx.stroke();
  for (const [x, y] of stops) {
    ctx.beginPath();
    ctx.arc(x, y, 2.6, 0, 7);
    ctx.fill();
  }
}
