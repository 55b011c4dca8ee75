// Draws a large timeline on a canvas: bands of time from afar, boxes of batches when near.
const TALL = { busy: 0.66, consumer: 0.8, wait: 0.5, pin: 0.4 };
const BIN_PX = 2;

// How many seconds of each bin lie within [start, end]; bins begin at view.from.
function addTo(bins, offset, view, start, end) {
  const a = Math.max(start, view.from);
  const b = Math.min(end, view.to);
  if (!(b > a)) return;
  let first = Math.floor((a - view.from) / view.binS);
  const last = Math.min(Math.floor((b - view.from) / view.binS), view.nBins - 1);
  if (first === last) { bins[offset + first] += b - a; return; }
  bins[offset + first] += view.from + (first + 1) * view.binS - a;
  while (++first < last) bins[offset + first] += view.binS;
  bins[offset + last] += b - (view.from + last * view.binS);
}

// Of one rank: the figure of several is drawn elsewhere, and its consumer's lane is the first.
function bandsOf(rows, view) {
  const { nBins } = view;
  const busy = new Float64Array(view.labels.length * nBins);
  const wait = new Float64Array(nBins);
  for (let i = 0; i < rows.n; i++) {
    if (rows.ready_s) addTo(busy, rows.lane[i] * nBins, view, rows.started_s[i], rows.ready_s[i]);
    if (rows.delivered_s) addTo(wait, 0, view, rows.requested_s[i], rows.delivered_s[i]);
    if (rows.released_s) addTo(busy, 0, view, rows.delivered_s[i], rows.released_s[i]);
    if (rows.pin) addTo(busy, rows.pin[i] * nBins, view, rows.pinning_s[i], rows.pinned_s[i]);
    if (rows.device) {
      addTo(busy, rows.device[i] * nBins, view, rows.device_start_s[i], rows.device_end_s[i]);
    }
  }
  return { busy, wait };
}

function drawBands(ctx, rows, view) {
  view.bands = bandsOf(rows, view);
  const { busy, wait } = view.bands;
  const column = (bins, at, tall, foot, up, fill) => {
    ctx.fillStyle = fill;
    ctx.beginPath();
    for (let i = 0; i < view.nBins; i++) {
      const px = tall * Math.min(bins[at + i] / view.binS, 1);
      if (px > 0) ctx.rect(view.left + i * BIN_PX, up ? foot - px : foot, BIN_PX, px);
    }
    ctx.fill();
  };
  view.labels.forEach((_, lane) => {
    const tall = view.lanePx * (lane ? TALL.busy : TALL.consumer);
    const foot = view.yOf(lane) + tall / 2;
    ctx.fillStyle = view.theme.track;
    ctx.fillRect(view.left, foot - tall, view.width, tall);
    column(busy, lane * view.nBins, tall, foot, true, view.theme.busy);
    if (lane) return;
    column(wait, 0, tall, foot - tall, false, view.theme.waitFill);
    column(wait, 0, tall, foot - tall, false, hatch(ctx));
  });
}

// In the order in which later ones may cover those before.
function drawBoxes(ctx, rows, view, found) {
  view.boxes = [];
  const box = (kind, i, lane, start, end, tall, fill, edge) => {
    if (!(end >= start)) return null;
    const x = Math.max(view.xOf(start), view.left - 3);
    const wide = Math.max(Math.min(view.xOf(end), view.left + view.width + 3) - x, 1);
    const px = tall * view.lanePx;
    const y = view.yOf(lane) - px / 2;
    ctx.globalAlpha = view.batch === null || view.batch === i ? 1 : 0.16;
    ctx.fillStyle = fill;
    ctx.fillRect(x, y, wide, px);
    if (edge && wide > 4) { ctx.strokeStyle = edge; ctx.strokeRect(x, y, wide, px); }
    view.boxes.push({ kind, i, x, y, wide, px });
    return { x, y, wide, px };
  };
  const number = (at, i, middle) => {
    if (!at) return;
    const text = String(rows.batch[i]);
    const wide = ctx.measureText(text).width;
    if (wide + 5 > at.wide) return;
    ctx.fillStyle = textOn(rows.batch[i]);
    ctx.fillText(text, middle ? at.x + (at.wide - wide) / 2 : at.x + 4, at.y + at.px / 2 + 0.5);
  };
  const { edge } = view.theme;
  const hatched = hatch(ctx);
  ctx.lineWidth = 1;
  ctx.textBaseline = "middle";
  for (const i of rows.delivered_s ? found : []) {
    const wait = [i, 0, rows.requested_s[i], rows.delivered_s[i], TALL.wait];
    if (!box("wait", ...wait, view.theme.waitFill, null)) continue;
    view.boxes.pop();  // one box, of two fills
    box("wait", ...wait, hatched, "rgba(213, 94, 0, 0.55)");
  }
  ctx.font = `12px ${view.font}`;
  for (const i of found) {
    const lane = rows.lane[i];
    const [start, ready] = rows.ready_s ? [rows.started_s[i], rows.ready_s[i]] : [];
    const fill = colourOf(rows.batch[i]);
    const read = rows.collate_s ? rows.collate_s[i] : ready;
    const made = box("sample", i, lane, start, read >= start ? read : ready, TALL.busy, fill, edge);
    if (ready > read) box("collate", i, lane, read, ready, TALL.busy, "#7d8590", null);
    number(made, i, false);
    if (rows.pin) {
      box("pin", i, rows.pin[i], rows.pinning_s[i], rows.pinned_s[i], TALL.pin, fill, edge);
    }
    if (rows.device) {
      const [from, to] = [rows.device_start_s[i], rows.device_end_s[i]];
      box("device", i, rows.device[i], from, to, TALL.busy, fill, edge);
    }
  }
  ctx.font = `13px ${view.font}`;
  for (const i of rows.delivered_s ? found : []) {
    const start = rows.delivered_s[i];
    const end = rows.released_s && rows.released_s[i] >= start ? rows.released_s[i] : start;
    number(box("step", i, 0, start, end, TALL.consumer, colourOf(rows.batch[i]), edge), i, true);
  }
  ctx.globalAlpha = 1;
}

// How many are finished and not taken: the most in each pixel.
function drawReady(ctx, rows, view) {
  const { arrive, leave, strip } = rows.events;
  if (!strip || !view.countY) return;
  let a = lowerBound(arrive, view.from);
  let b = lowerBound(leave, view.from);
  ctx.beginPath();
  for (let x = 0; x <= view.width; x++) {
    const until = view.from + ((x + 1) / view.width) * (view.to - view.from);
    let most = a - b;
    while ((a < arrive.length && arrive[a] <= until) || (b < leave.length && leave[b] <= until)) {
      if (a < arrive.length && (b >= leave.length || arrive[a] <= leave[b])) a++; else b++;
      most = Math.max(most, a - b);
    }
    ctx.lineTo(view.left + x, view.countY(most));
    ctx.lineTo(view.left + x + 1, view.countY(most));
  }
  ctx.strokeStyle = "#3a87c2";
  ctx.lineWidth = 1.4;
  ctx.stroke();
  ctx.lineTo(view.left + view.width + 1, view.countY(0));
  ctx.lineTo(view.left, view.countY(0));
  ctx.fillStyle = "rgba(58, 135, 194, 0.18)";
  ctx.fill();
}

function lowerBound(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

const PALETTE = ["#0072b2", "#a3b135", "#cc79a7", "#9b3f9b", "#7c8420", "#56b4e9", "#009e73"];
function colourOf(batch) { return PALETTE[batch % 7]; }
function textOn(batch) { return [1, 2, 5].includes(batch % 7) ? "#1b1f24" : "#ffffff"; }

function hatch(ctx) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 7;
  const lines = tile.getContext("2d");
  lines.strokeStyle = "#d55e00";
  lines.lineWidth = 1.6;
  for (const shift of [-7, 0, 7]) {
    lines.moveTo(shift - 1, 8);
    lines.lineTo(shift + 8, -1);
  }
  lines.stroke();
  return ctx.createPattern(tile, "repeat");
}
