// Waits step by step (loaderviz/figures/results/waits_figure.py): single steps when zoomed in, bands from afar.
const WAITS_BINS = 300;
const MOST_DOTS = 1500;
const MARKS = { median: 0, longest: 1, step: 2 };

async function tendWaits(gd) {
  const packed = gd.layout.meta.loaderviz.waits;
  if (!packed || gd.loadervizWaits || typeof DecompressionStream === "undefined") return;
  gd.loadervizWaits = true;
  const rows = await decodeWaits(packed);
  gd.dataset.level = "bands";
  gd.on("plotly_relayout", () => drawWaits(gd, rows));
}

async function decodeWaits({ n, data }) {
  const planes = await inflate(data);
  const bytes = new Uint8Array(planes.length);
  for (let i = 0; i < 2 * n; i++) {
    for (let k = 0; k < 4; k++) bytes[4 * i + k] = planes[2 * n * k + i];
  }
  const both = new Float32Array(bytes.buffer);
  return { x: both.subarray(0, n), y: both.subarray(n) };
}

function drawWaits(gd, { x, y }) {
  const [from, to] = gd._fullLayout.xaxis.range;
  let [first, last] = [0, x.length];
  while (first < last && x[first] < from) first++;
  while (last > first && x[last - 1] > to) last--;
  const near = last - first <= MOST_DOTS;
  const level = near ? "steps" : "bands";
  const seen = `${level} ${first} ${last}`;
  if (gd.loadervizSeen === seen || !window.Plotly) return;
  gd.loadervizSeen = seen;
  gd.dataset.level = level;
  const band = near ? { x: [], median: [], longest: [] } : bandOf(x, y, first, last);
  const dots = near ? [[...x.subarray(first, last)], [...y.subarray(first, last)]] : [[], []];
  window.Plotly.restyle(gd, {
    x: [band.x, band.x, dots[0]], y: [band.median, band.longest, dots[1]],
  }, [MARKS.median, MARKS.longest, MARKS.step]);
}

function bandOf(x, y, first, last) {
  const band = { x: [], median: [], longest: [] };
  for (let bin = 0; bin < WAITS_BINS; bin++) {
    const [a, b] = [bin, bin + 1].map((k) => first + Math.floor(k * (last - first) / WAITS_BINS));
    const own = y.slice(a, b).sort();
    band.x.push(x[(a + b) >> 1]);
    band.median.push((own[(own.length - 1) >> 1] + own[own.length >> 1]) / 2);
    band.longest.push(own[own.length - 1]);
  }
  return band;
}
