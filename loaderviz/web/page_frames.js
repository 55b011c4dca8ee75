// The controls of a page without a kernel. The page holds what they show at each of their positions
// (widgets/page_frames.py): this moves through it. Shares one scope with the figures' scripts.
function tendFrames(box) {
  const inputs = [...box.querySelectorAll("[data-stops]")];
  const stops = inputs.map((input) => JSON.parse(input.dataset.stops));
  const places = box.querySelector(".loaderviz-parts");
  let frames = null;
  let drawing = false;
  let wanted = false;
  const read = () => (frames ??= inflate(box.dataset.frames)
    .then((bytes) => JSON.parse(new TextDecoder().decode(bytes))));
  // In the order in which Python's itertools.product goes through the stops.
  const frameAt = (positions) => positions.reduce((sum, at, i) => sum * stops[i].length + at, 0);
  const greyTheIdle = (all) => {
    const now = inputs.map(positionOf);
    const same = (positions) => String(all[frameAt(positions)]) === String(all[frameAt(now)]);
    inputs.forEach((input, i) => {
      const idle = stops[i].every((_, at) => same(now.with(i, at)));
      input.parentNode.classList.toggle("loaderviz-idle", idle);
      input.title = idle ? "Changes nothing here" : "";
    });
  };
  const show = async () => {
    inputs.forEach((input, i) => { tell(input, stops[i][positionOf(input)]); });
    wanted = true;
    if (drawing) return;
    drawing = true;
    while (wanted) {
      wanted = false;
      const { pool, frames: all } = await read();
      const at = frameAt(inputs.map(positionOf));
      greyTheIdle(all);
      await showParts(places, all[at].map((part) => unpooled(pool, part)));
      box.dataset.shown = String(at);
    }
    drawing = false;
  };
  for (const input of inputs) {
    input.disabled = false;
    input.addEventListener("input", show);
  }
  whenShown(box, async () => greyTheIdle((await read()).frames));
}

function positionOf(input) {
  if (input.type === "checkbox") return Number(input.checked);
  return input.type === "range" ? Number(input.value) : input.selectedIndex;
}

function tell(input, text) {
  if (input.type !== "range") return;
  input.setAttribute("aria-valuetext", text);
  input.parentNode.querySelector("output").textContent = text;
}

// What stands at a place of the pool, made anew, because plotly writes into what it is given.
function unpooled(pool, place) {
  const value = pool[place];
  if (Array.isArray(value)) return structuredClone(value);
  if (value === null || typeof value !== "object") return value;
  if ("" in value) return value[""].map((each) => unpooled(pool, each));
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, unpooled(pool, each)]));
}

async function showParts(places, parts) {
  while (places.children.length > parts.length) places.lastElementChild.remove();
  for (const [i, part] of parts.entries()) {
    const place = places.children[i] ?? places.appendChild(document.createElement("div"));
    if (typeof part === "string") place.innerHTML = part;
    else await showFigure(place, part);
  }
}

async function showFigure(place, { data, layout, config }) {
  plotlyOfPage ??= findPlotly();
  const Plotly = await plotlyOfPage;
  let gd = place.querySelector(".loaderviz-saved");
  if (gd) {
    await drawSaved(gd);
  } else {
    gd = document.createElement("div");
    gd.className = "loaderviz-saved";
    gd.loadervizSeen = true;
    place.replaceChildren(gd);
  }
  gd.style.height = `${layout.height ?? 450}px`;
  await Plotly.react(gd, data, layout, config);
  window.loadervizLook.adoptAll();
}
