// A notebook that is opened again in JupyterLab: our figures come to life, and in place of a widget that
// lost its kernel stands what it showed at first.
function reviveAll() {
  for (const picture of document.querySelectorAll(".jp-RenderedPlotly > .plot-img[src]")) {
    if (picture.loadervizSeen || !below(picture, "script.loaderviz-look")) continue;
    picture.loadervizSeen = true;
    if (!picture.parentNode.querySelector(".plot-container")) whenShown(picture, wake);
  }
  for (const lost of document.querySelectorAll(".jp-OutputArea-output.jupyter-widgets")) {
    const kept = !lost.loadervizSeen && isLost(lost) && below(lost, "template.loaderviz-still");
    if (!kept) continue;
    lost.loadervizSeen = true;
    lost.replaceChildren(kept.content.cloneNode(true));
  }
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
