// Draws the figure that the kernel sends, with plotly's own `react`; the latest one wins. Stands after
// sizes.js (widgets/figure_view.py puts them together).
const plotly = async () => {
  while (!window.loadervizFindPlotly) await new Promise((resolve) => setTimeout(resolve, 20));
  return window.loadervizFindPlotly();
};

export default {
  render({ model, el }) {
    el.classList.add("loaderviz-figure");
    const dim = () => { el.style.opacity = model.get("stale") ? 0.35 : ""; };
    dim();
    const gd = document.createElement("div");
    el.append(gd);
    let drawing = false;
    let wanted = false;
    const draw = async () => {
      wanted = true;
      if (drawing) return;
      drawing = true;
      const Plotly = await plotly();
      while (wanted) {
        wanted = false;
        const text = model.get("figure");
        gd.style.display = text ? "" : "none";
        if (!text) continue;
        const figure = JSON.parse(text);
        // Plotly's own resizing takes both sides from here, whatever the layout says.
        gd.style.height = `${figure.layout.height}px`;
        await Plotly.react(gd, figure.data, figure.layout, figure.config);
        if (window.loadervizLook) window.loadervizLook.adoptAll();
      }
      drawing = false;
    };
    const fit = whenWidthChanges(el, async (width) => {
      const drawn = widthOfFigure(gd);
      if (drawn && Math.abs(width - drawn) > 2) (await plotly()).Plots.resize(gd);
    });
    model.on("change:figure", draw);
    model.on("change:stale", dim);
    draw();
    return () => {
      fit.disconnect();
      model.off("change:figure", draw);
      model.off("change:stale", dim);
      if (window.loadervizPlotly) window.loadervizPlotly.purge(gd);
    };
  },
};
