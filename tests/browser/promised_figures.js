// Of the figures in view: the cell, the figure's place in it, its title and subtitle, and where each
// tick of its time axis is, in px from the figure's left edge.
() => {
  const panel = document.querySelector(".jp-WindowedPanel-outer").getBoundingClientRect();
  const cells = [...document.querySelectorAll(".jp-Notebook .jp-Cell")];
  const figures = [];
  for (const gd of document.querySelectorAll(".jp-Notebook .js-plotly-plot")) {
    const box = gd.getBoundingClientRect();
    const title = gd.querySelector(".gtitle")?.textContent;
    if (!title || !box.height || box.bottom < panel.top || box.top > panel.bottom) continue;
    const cell = gd.closest(".jp-Cell");
    const place = [...cell.querySelectorAll(".js-plotly-plot")].indexOf(gd);
    const numbers = gd.querySelector(".gtitle-subtitle")?.textContent ?? "";
    const ticks = [...gd.querySelectorAll(".xtick text")].map((text) => {
      const own = text.getBoundingClientRect();
      return [text.textContent, (own.left + own.right) / 2 - box.left];
    });
    figures.push([cells.indexOf(cell), place, title, numbers, Object.fromEntries(ticks)]);
  }
  return figures;
}
