// Draws the figures of a notebook that was exported to a page, where no front end draws them.
function drawSaved(place) {
  if (place.loadervizDrawn) return;
  place.loadervizDrawn = true;
  const { figure, plotly } = place.dataset;
  window.loadervizPlotly ||= window.Plotly ? Promise.resolve()
    : loadScript("plotly.min.js").catch(() => loadScript(plotly));  // beside the page, or its home
  Promise.all([inflate(figure), window.loadervizPlotly]).then(([bytes]) => {
    const { data, layout, config } = JSON.parse(new TextDecoder().decode(bytes));
    return window.Plotly.newPlot(place, data, layout, config);
  }).catch(() => { place.textContent = "This figure needs plotly.js, which could not be loaded."; });
}

function loadScript(src) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src, onload: resolve, onerror: reject });
    document.head.append(script);
  });
}
