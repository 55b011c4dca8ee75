// Where a notebook's outputs have lost what draws them. Opened again in JupyterLab, our figures come to
// life. In place of a widget stands what it showed at first, if it lost its kernel, or if its scripts do
// not run: the front end has no anywidget or refuses it, or a page from nbconvert finds no network.
const SCRIPTS_TAKE_MS = 10000;  // at most, on a slow network; if they come later, the widget comes back

function reviveAll() {
  for (const picture of document.querySelectorAll(".jp-RenderedPlotly > .plot-img[src]")) {
    if (picture.loadervizSeen || !below(picture, "script.loaderviz-look")) continue;
    picture.loadervizSeen = true;
    if (!picture.parentNode.querySelector(".plot-container")) whenShown(picture, wake);
  }
  document.querySelectorAll("template.loaderviz-still").forEach(standIn);
}

function standIn(kept) {
  const output = kept.closest(".jp-OutputArea-child")?.previousElementSibling;
  const widget = output?.querySelector(".jupyter-widgets");  // as ipywidgets marks it
  if (!widget) return;
  if (isLost(widget)) {
    widget.replaceChildren(stillOf(kept));
    const needs = widget.querySelector(".loaderviz-needs-lab span");
    if (needs) needs.textContent = "Run this cell again to move these controls.";
    return;
  }
  // widget_scripts.js sets the first, ipywidgets makes the second.
  const runs = Boolean(window.loadervizFindPlotly && output.querySelector(".loaderviz-widget"));
  if (!kept.loadervizStill && !runs && hasFailed(widget, kept)) {
    const why = document.createElement("p");
    why.textContent = "This widget cannot be shown here. In its place stands what it showed at first.";
    kept.loadervizStill = document.createElement("div");
    kept.loadervizStill.append(why, stillOf(kept));
    widget.after(kept.loadervizStill);
  }
  if (!kept.loadervizStill) return;
  widget.style.display = runs ? "" : "none";
  kept.loadervizStill.hidden = runs;
}

// What is kept, with scripts that run: those that JupyterLab puts into a page as text never do.
function stillOf(kept) {
  const still = kept.content.cloneNode(true);
  for (const old of still.querySelectorAll("script")) {
    const script = document.createElement("script");
    Object.assign(script, { type: old.type, textContent: old.textContent });
    old.replaceWith(script);
  }
  return still;
}

// At once where ipywidgets shows an error, else when the scripts have had their time.
function hasFailed(widget, kept) {
  if (kept.loadervizSince === undefined) {
    kept.loadervizSince = performance.now();
    setTimeout(reviveAll, SCRIPTS_TAKE_MS + 1);
  }
  const waited = performance.now() - kept.loadervizSince;
  return waited >= SCRIPTS_TAKE_MS || widget.querySelector(".jupyter-widgets-error-widget");
}

// JupyterLab draws a saved figure as a picture until the mouse is over it.
function wake(picture) {
  picture.dispatchEvent(new Event("mouseenter"));
}

// As ipywidgets tells it, in words only.
function isLost(output) {
  return /^Error displaying widget/.test(output.textContent);
}

// In the output under this one, which our figures and widgets bring along.
function below(node, selector) {
  const next = node.closest(".jp-OutputArea-child")?.nextElementSibling;
  return next?.querySelector(selector);
}

// Calls act(node) once, when it is in view or nearly so.
function whenShown(node, act) {
  const observer = new IntersectionObserver((seen) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    observer.disconnect();
    act(node);
  }, { rootMargin: "300px" });
  observer.observe(node);
}
