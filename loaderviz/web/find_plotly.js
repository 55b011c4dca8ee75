// The plotly.js that JupyterLab's own extension of it has; null elsewhere. It keeps it in the class
// that draws, from the first figure on.
async function plotlyOfLab() {
  const extension = window._JUPYTERLAB?.["jupyterlab-plotly"];
  if (!extension) return null;
  try {
    const { RenderedPlotly, MIME_TYPE } = (await extension.get("./mimeExtension"))();
    if (!RenderedPlotly.Plotly) {
      const first = new RenderedPlotly({ mimeType: MIME_TYPE });
      await first.renderModel({ data: { [MIME_TYPE]: { data: [], layout: {} } } });
      first.dispose();
    }
    return RenderedPlotly.Plotly ?? null;
  } catch {  // another version of it
    return null;
  }
}
