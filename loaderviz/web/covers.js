// Takes the covers off a timeline's boxes where there is room for them
// (loaderviz/figures/timelines/covers.py).
const COVERS = { samples: "cover of samples", batches: "cover of batches" };
const UNDER = new Set(["sample", COVERS.samples, "collate", "number", "step", "pin", "device"]);

// Called whenever plotly has drawn.
function tendCovers(gd) {
  const rules = gd.layout.meta?.loaderviz?.covers;
  gd.loadervizCovers = rules ? coversNeeded(gd, rules) : null;
  if (!rules) return;
  const { batches, samples } = gd.loadervizCovers;
  gd.dataset.level = batches ? "busy" : samples ? "batches" : "samples";
  lift(gd, null);
}

// Shows what lies under the cover of batches while one of them is looked at.
function lift(gd, batch) {
  const covers = gd.loadervizCovers;
  if (!covers) return;
  for (const group of gd.querySelectorAll(".barlayer .trace.bars")) {
    const name = group.__data__?.[0]?.trace?.name;
    if (UNDER.has(name)) group.style.opacity = covers.batches && batch === null ? 0 : 1;
    if (name === COVERS.batches) group.style.display = covers.batches ? "" : "none";
    if (name === COVERS.samples) group.style.display = covers.samples ? "" : "none";
  }
}

// By what lies in view: how many batches a loop takes, and how wide a usual sample is.
function coversNeeded(gd, { batches, samplePx }) {
  const { xaxis } = gd._fullLayout;
  const [from, to] = xaxis.range.map(Number);
  const inView = (name) => {
    const trace = gd._fullData.find((each) => each.name === name);
    const found = [];
    for (let i = 0; i < (trace?.x?.length ?? 0); i++) {
      const [start, length] = [trace.base[i], trace.x[i]];
      if (start <= to && start + length >= from) found.push({ length, lane: trace.y[i] });
    }
    return found;
  };
  const steps = inView("step");
  const loops = new Set(steps.map((each) => each.lane)).size || 1;
  const lengths = inView("sample").map((each) => each.length).sort((a, b) => a - b);
  const usual = lengths[lengths.length >> 1] ?? 0;
  return {
    batches: steps.length > batches * loops,
    samples: usual * xaxis._length / (to - from) < samplePx,
  };
}

// How opaque a bar is while a batch is looked at: of what is under the cover, its own alone is seen.
function opacityOf(gd, name, own, batch) {
  if (batch === null) return "";
  if (name === COVERS.batches) return own === batch ? 0 : 0.3;
  if (own === batch) return "";
  if (gd.loadervizCovers?.batches && UNDER.has(name)) return 0;
  return own === undefined || own === null ? 0.45 : 0.16;
}
