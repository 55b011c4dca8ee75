// Draws the figures of a notebook that was exported to a page, where no front end draws them.
let plotlyOfPage = null;

function drawSaved(place) {
  if (place.loadervizDrawn) return;
  place.loadervizDrawn = true;
  const { figure, plotly } = place.dataset;
  plotlyOfPage ??= findPlotly(plotly);
  Promise.all([inflate(figure), plotlyOfPage]).then(([bytes, Plotly]) => {
    const { data, layout, config } = JSON.parse(new TextDecoder().decode(bytes));
    place.replaceChildren();  // of what it says in words
    return Plotly.newPlot(place, data, layout, config);
  }).catch(() => { place.append("This figure needs plotly.js, which could not be loaded."); });
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
