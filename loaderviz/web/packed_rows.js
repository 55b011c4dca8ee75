// Reads the table of batches that a large timeline carries (loaderviz/figures/timelines/packed_rows.py).
async function decodeRows(packed) {
  const bytes = await inflate(packed.data);
  const { n, columns, start, tick } = packed;
  const rows = { n };
  const times = [];
  for (const [k, [name, base]] of columns.entries()) {
    const beyond = readColumn(bytes, n, k);
    if (name.endsWith("_s")) {
      times.push({ name, base, beyond, ticks: new Float64Array(n), latest: 0 });
      continue;
    }
    for (let i = 1; i < n; i++) beyond[i] += beyond[i - 1];
    rows[name] = beyond;
  }
  const column = Object.fromEntries(times.map((time) => [time.name, time]));
  const released = times.findIndex((time) => time.name === "released_s");
  for (const time of times) rows[time.name] = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const latest = released < 0 ? 0 : times[released].latest;
    times.forEach((time, bit) => {
      const base = time.base === "before" ? time.latest
        : time.base === "last released_s" ? latest : column[time.base].ticks[i];
      const ticks = base + time.beyond[i];
      time.ticks[i] = ticks;
      const known = !(rows.missing[i] >> bit & 1);
      if (known) time.latest = ticks;
      rows[time.name][i] = known ? start + tick * ticks : NaN;
    });
  }
  return rows;
}

async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Four planes of bytes, the lowest first; numbers of either sign as zigzag.
function readColumn(bytes, n, k) {
  const [a, b, c, d] = [0, 1, 2, 3].map((plane) => bytes.subarray((4 * k + plane) * n));
  const values = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    const zigzag = a[i] | (b[i] << 8) | (c[i] << 16) | (d[i] << 24);
    values[i] = (zigzag >>> 1) ^ -(zigzag & 1);
  }
  return values;
}
