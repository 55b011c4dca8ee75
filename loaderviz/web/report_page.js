// Draws the figures one after another, the first at once; sees to the theme, and to paper.
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const PAPER_PX = 980;  // the width of a page in landscape, A4 or Letter
  const root = document.documentElement;
  const places = [...document.querySelectorAll(".plot")];

  const draw = async (place) => {
    if (place.classList.contains("js-plotly-plot")) return;
    const { data, layout, config } = figures[place.id.replace("figure-", "")];
    await window.Plotly.newPlot(place, data, layout, config);
    window.loadervizLook.adoptAll();
    // A flag of an incident leads to what was saved of it.
    place.on("plotly_clickannotation", ({ annotation }) => document.getElementById(annotation.name)?.scrollIntoView());
  };
  const drawAll = async () => {
    for (const place of places) {
      await draw(place).catch((error) => { place.textContent = `This figure could not be drawn: ${error}`; });
      await new Promise((act) => setTimeout(act));  // paints it before the next
    }
    root.dataset.drawn = "all";
  };

  // adopt_figures.js looks again at the page's colours when the body's class changes.
  const recolour = () => document.body.classList.toggle("recoloured");
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

  const closed = [];
  const toPaper = () => {
    if (root.classList.contains("printing")) return;
    root.classList.add("printing");
    for (const each of document.querySelectorAll("details")) {
      if (each.open) continue;
      closed.push(each);
      each.open = true;
    }
    resize(PAPER_PX);
    recolour();
  };
  const toScreen = () => {
    root.classList.remove("printing");
    for (const each of closed.splice(0)) each.open = false;
    resize(null);
    recolour();
  };
  const resize = (width, within = root) => {
    const drawn = places.filter((each) => each.classList.contains("js-plotly-plot"));
    for (const place of drawn.filter((each) => within.contains(each))) {
      window.Plotly.relayout(place, { width: width ?? window.loadervizLook.roomOf(place) });
    }
  };
  // A figure that was drawn in a closed fold had no room.
  document.addEventListener("toggle", ({ target }) => {
    if (target instanceof HTMLDetailsElement && target.open && !root.classList.contains("printing")) resize(null, target);
  }, true);
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", toScreen);

  drawAll();
})();
