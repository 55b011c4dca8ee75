// What a large timeline says of the thing under the mouse, in the words of a small one.
function inMs(seconds) {
  const ms = 1000 * seconds;
  if (ms >= 100) return `${Math.round(ms).toLocaleString("en-US")} ms`;
  return `${+ms.toPrecision(3)} ms`;
}

function nameOf(rows, view, i) {
  const epoch = rows.epoch ? ` of epoch ${rows.epoch[i]}` : "";
  return `<b>batch ${rows.batch[i]}</b>${epoch}, ${escaped(view.labels[rows.lane[i]])}`;
}

function wordsOfBox(rows, view, { kind, i }) {
  const name = nameOf(rows, view, i);
  const took = (from, to) => inMs(rows[to][i] - rows[from][i]);
  if (kind === "wait") return `waits ${took("requested_s", "delivered_s")} for<br>${name}`;
  if (kind === "collate") return `${name}<br>collate ${took("collate_s", "ready_s")}`;
  if (kind === "pin") return `${name}<br>taken over and pinned within ${took("pinning_s", "pinned_s")}`;
  if (kind === "device") return `${name}<br>step on the device ${took("device_start_s", "device_end_s")}`;
  const samples = `<br>${rows.n_samples[i]} samples`;
  if (kind === "sample") {
    const read = rows.collate_s && !Number.isNaN(rows.collate_s[i]);
    return `${name}${samples}<br>${took("started_s", read ? "collate_s" : "ready_s")}`;
  }
  const released = rows.released_s && !Number.isNaN(rows.released_s[i]);
  const lay = rows.ready_s ? rows.requested_s[i] - rows.ready_s[i] : 0;
  return `${name}${samples}<br>step ${released ? took("delivered_s", "released_s") : inMs(0)}`
    + `<br>waited for ${took("requested_s", "delivered_s")}`
    + (lay > 0 ? `<br>lay ready ${inMs(lay)}` : "");
}

function wordsOfBand(view, lane, bin) {
  const share = (seconds) => `${Math.round(Math.min(100 * seconds / view.binS, 100))} %`;
  const busy = share(view.bands.busy[lane * view.nBins + bin]);
  const digits = Math.max(0, Math.ceil(-Math.log10(view.binS)) + 1);
  const at = (view.from + bin * view.binS).toFixed(digits);
  const what = lane ? `busy ${busy}` : `in steps ${busy}, waiting ${share(view.bands.wait[bin])}`;
  return `<b>${escaped(view.labels[lane])}</b><br>${what} of ${inMs(view.binS)} from ${at} s on`;
}

function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
}
