// Adopts every loaderviz figure on the page: one batch at a time stands out when it is hovered or
// clicked, and text and grid follow the page's theme. Needs no kernel. Safe to run many times.
// Shares one scope with the other scripts here (figures/display.py puts them together).
function look() {
  const style = document.createElement("style");
  style.textContent = `
    .loaderviz .main-svg { background: transparent !important; }
    .loaderviz .g-gtitle text:first-of-type, .loaderviz .ytick text { fill: var(--lv-text) !important; }
    .loaderviz .g-gtitle-subtitle text, .loaderviz .gtitle-subtitle, .loaderviz .xtick text,
    .loaderviz .x2tick text, .loaderviz .y2tick text, .loaderviz .g-xtitle text,
    .loaderviz .g-ytitle text, .loaderviz .g-x2title text, .loaderviz .g-y2title text,
    .loaderviz .annotation-text { fill: var(--lv-muted) !important; }
    .loaderviz .gtitle { fill: var(--lv-text) !important; }
    .loaderviz .gridlayer path, .loaderviz .zerolinelayer path { stroke: var(--lv-grid) !important; }
    .loaderviz-dark .bars path[style*="stroke: rgb(255, 255, 255)"] { stroke: #15181c !important; }
    .loaderviz .bars .point { transition: opacity 90ms; }
    .loaderviz-widget.jupyter-widgets-disconnected::before { display: block; margin: 4px 0;
      padding: 4px 8px; font: 14px/1.4 var(--jp-ui-font-family, system-ui, sans-serif);
      color: var(--jp-ui-font-color1, #1f2328); border-left: 3px solid #e5383b;
      content: "The kernel of these controls has ended. This is what they last showed; run the cell again."; }
    .loaderviz-widget .jupyter-widgets-disconnected::before { content: none; }
    .loaderviz-widget.jupyter-widgets-disconnected :is(.widget-inline-hbox, .jupyter-button) {
      pointer-events: none; opacity: .4; }
    .loaderviz-drawn .xy .scatterlayer .js-fill, .loaderviz-strip .xy2 .scatterlayer .js-fill,
    .loaderviz-strip .xy2 .scatterlayer .js-line { display: none; }
    .loaderviz-canvas { position: absolute; left: 0; top: 0; pointer-events: none; }
    .loaderviz.js-plotly-plot .plotly .loaderviz-tip { position: absolute; display: none; padding: 3px 8px; font-size: 13px;
      line-height: 1.3; white-space: nowrap; pointer-events: none; color: #1b1f24; z-index: 2;
      background: #ffffff; border: 1px solid #7d8590; border-left-width: 4px; }
    .loaderviz-path { fill: none; stroke: var(--lv-text); stroke-width: 1.8; stroke-dasharray: 2 3;
      pointer-events: none; }
    .loaderviz-stop { fill: var(--lv-text); pointer-events: none; }
    .loaderviz { --lv-text: #1f2328; --lv-muted: #59636e; --lv-grid: rgba(31,35,40,.10); }
    .loaderviz-dark { --lv-text: #e6e8eb; --lv-muted: #9aa4af; --lv-grid: rgba(230,232,235,.13); }`;
  document.head.append(style);

  const isDark = () => {
    const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
    if (jpThemeLight !== undefined) return jpThemeLight === "false";
    if (vscodeThemeKind !== undefined) return /dark|contrast$/.test(vscodeThemeKind);
    const rgb = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g) || [];
    const [r, g, b, a] = rgb.map(Number);
    return rgb.length >= 3 && a !== 0 && 0.3 * r + 0.6 * g + 0.1 * b < 110;
  };

  const batchOf = (event) => {
    const point = event.points?.[0];
    return point && typeof point.customdata === "number" ? point.customdata : null;
  };

  // plotly binds its data to the elements it draws: a bar's position and its trace's number.
  const eachBar = (gd, act) => {
    for (const group of gd.querySelectorAll(".barlayer .trace.bars")) {
      const bound = group.__data__?.[0];
      if (!bound?.trace) continue;
      const trace = gd._fullData[bound.trace.index];  // gd.data may hold arrays as base64
      if (!trace?.customdata) continue;
      for (const bar of group.querySelectorAll(".point")) {
        act(bar, trace.customdata[bar.__data__ ? bar.__data__.i : -1], trace.name);
      }
    }
  };

  const drawPath = (gd, batch) => {
    for (const old of gd.querySelectorAll(".loaderviz-overlay")) old.remove();
    const path = batch === null ? null : (gd.layout.meta.loaderviz.paths || [])[batch];
    const { xaxis, yaxis } = gd._fullLayout || {};
    if (!path || !xaxis || !yaxis) return;
    const svg = (name, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const key in attributes) node.setAttribute(key, attributes[key]);
      return node;
    };
    const overlay = svg("svg", {
      class: "loaderviz-overlay", x: xaxis._offset, y: yaxis._offset,
      width: xaxis._length, height: yaxis._length, style: "pointer-events: none",
    });
    const stops = path.map(([x, lane]) => [xaxis.l2p(x), yaxis.l2p(lane)]);
    overlay.append(svg("polyline", {
      class: "loaderviz-path", points: stops.map((stop) => stop.join()).join(" "),
    }));
    for (const [cx, cy] of stops) {
      overlay.append(svg("circle", { class: "loaderviz-stop", cx, cy, r: 2.6 }));
    }
    gd.querySelector("svg.main-svg").append(overlay);
  };

  const show = (gd, batch) => {
    gd.dataset.batch = batch === null ? "" : batch;
    lift(gd, batch);
    eachBar(gd, (bar, own, name) => { bar.style.opacity = opacityOf(gd, name, own, batch); });
    drawPath(gd, batch);
  };

  const adopt = (gd) => {
    const meta = gd.layout?.meta;
    if (gd.loadervizAdopted || !gd.on || !meta || !meta.loaderviz) return;
    gd.loadervizAdopted = true;
    gd.classList.add("loaderviz");
    gd.classList.toggle("loaderviz-dark", isDark());
    // When the window changes, plotly takes both sides from here, whatever the layout says.
    if (gd.layout.height) gd.style.height = `${gd.layout.height}px`;
    let pinned = null;
    let shown = null;
    const set = (batch) => { shown = batch; show(gd, batch); };
    gd.on("plotly_hover", (event) => { const b = batchOf(event); if (b !== shown) set(b ?? pinned); });
    gd.on("plotly_unhover", () => { if (shown !== pinned) set(pinned); });
    gd.on("plotly_click", (event) => {
      const batch = batchOf(event);
      pinned = batch === pinned ? null : batch;
      set(pinned);
    });
    fit(gd);
    fitTitles(gd);
    tendCovers(gd);
    gd.on("plotly_afterplot", () => {
      gd.classList.add("loaderviz");
      fitTitles(gd);
      tendCovers(gd);
      if (shown !== null) show(gd, shown);
      tendLarge(gd);
    });
    tendLarge(gd);
    tendWaits(gd);
  };

  // A widget's figure is laid out before its place in the page has a width.
  const fit = (gd) => {
    if (!gd._context?.responsive) return;
    whenWidthChanges(gd, (width) => {
      if (Math.abs(width - widthOfFigure(gd)) <= 2) return;
      if (gd._responsiveChartHandler) gd._responsiveChartHandler();  // this figure alone
      else window.dispatchEvent(new Event("resize"));
    });
  };

  const adoptAll = () => {
    document.querySelectorAll(".loaderviz-saved").forEach(drawInTurn);
    reviveAll();
    document.querySelectorAll(".js-plotly-plot").forEach(adopt);
  };
  const recolour = () => document.querySelectorAll(".loaderviz").forEach((gd) => {
    const [was, is] = [gd.classList.contains("loaderviz-dark"), isDark()];
    gd.classList.toggle("loaderviz-dark", is);
    if (was !== is && gd.loadervizLarge) gd.loadervizLarge.draw();
  });
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; adoptAll(); }, 120);
  };
  new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
  new MutationObserver(recolour).observe(document.body, {
    attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "class", "style"],
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  window.loadervizLook = { adoptAll, roomOf };
  adoptAll();
}
