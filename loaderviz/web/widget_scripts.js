// Shows nothing. Finds the widgets' figures a plotly.js once they ask for one: JupyterLab's own, else
// what the kernel has sent. Stands after find_plotly.js and our figures' scripts.
async function findPlotly(sent) {
  window.loadervizPlotly ??= (await plotlyOfLab()) ?? (await evaluated(sent));
  return window.loadervizPlotly;
}

async function evaluated(text) {
  const lines = ["const module = { exports: {} };", "const exports = module.exports;", text,
    "export default module.exports;"];
  const url = URL.createObjectURL(new Blob([lines.join("\n")], { type: "text/javascript" }));
  try {
    return (await import(url)).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

export default {
  initialize({ model }) {
    let found = null;
    window.loadervizFindPlotly = () => (found ??= findPlotly(model.get("plotly")));
  },
  render() {},
};
