// Draws the figures of a notebook that was exported to a page, where no front end draws them.
let plotlyOfPage = null;
let drawnSoFar = Promise.resolve();

// Those in view first; the others one after another, while the page has nothing else to do. What is
// folded waits until it is opened, and so gets the width that it has then.
function drawInTurn(place) {
  if (place.loadervizSeen) return;
  place.loadervizSeen = true;
  whenShown(place, drawSaved);
  drawnSoFar = drawnSoFar.then(untilIdle).then(() => isFolded(place) || drawSaved(place));
}

function isFolded(place) {
  return Boolean(place.closest("details:not([open])"));
}

function untilIdle() {
  return new Promise((act) => { (window.requestIdleCallback ?? setTimeout)(act); });
}

function drawSaved(place) {
  place.loadervizDrawn ??= drawnFrom(place);
  return place.loadervizDrawn;
}

async function drawnFrom(place) {
  const { figure, plotly } = place.dataset;
  plotlyOfPage ??= findPlotly(plotly);
  try {
    const [bytes, Plotly] = await Promise.all([inflate(figure), plotlyOfPage]);
    const { data, layout, config } = JSON.parse(new TextDecoder().decode(bytes));
    place.replaceChildren();  // of what it says in words
    await Plotly.newPlot(place, data, layout, config);
  } catch {
    place.append("This figure needs plotly.js, which could not be loaded.");
  }
}

// The page's own, the one that a widget found, JupyterLab's, that beside the page, or from its home.
async function findPlotly(home) {
  const there = window.Plotly || window.loadervizPlotly || (await plotlyOfLab());
  if (there) return there;
  await loadScript("plotly.min.js").catch(() => loadScript(home));
  return window.Plotly;
}

function loadScript(src) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src, onload: resolve, onerror: reject });
    document.head.append(script);
  });
}
