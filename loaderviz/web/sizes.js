// Every size that our scripts ask for, they ask here (a test reads them for it). A page lays out only
// what it shows: JupyterLab skips the cells that are scrolled away, a browser what is folded, and
// Chromium's renderer dies when it is asked how long an SVG text in there is. So a text is measured on
// a canvas, and a figure is as wide as plotly drew it.
const canvasForText = document.createElement("canvas").getContext("2d");

// In pixels, with the font as CSS writes it.
function widthOfText(text, font) {
  canvasForText.font = font;
  return canvasForText.measureText(text).width;
}

// 0 for a figure that is not drawn yet.
function widthOfFigure(gd) {
  return (gd._fullLayout?.width) || 0;
}

// Calls act(width in px) when the place has another width, and once it has any; what is not shown has
// none. Ends with the observer that it returns.
function whenWidthChanges(place, act) {
  const observer = new ResizeObserver((entries) => {
    const { width } = entries[entries.length - 1].contentRect;
    if (width > 0) act(width);
  });
  observer.observe(place);
  return observer;
}

// The room that the page has for something, in px; 0 where it is not shown.
function roomOf(place) {
  return place.clientWidth;
}

// Where the mouse is in something that is under it, in px from its left upper corner.
function mouseIn(shown, event) {
  const frame = shown.getBoundingClientRect();
  return [event.clientX - frame.left, event.clientY - frame.top];
}

// Puts a tip beside the mouse, within the picture that the mouse is in.
function putBeside(tip, picture, [x, y]) {
  tip.style.left = `${Math.min(x + 14, picture.clientWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${Math.min(y + 14, picture.clientHeight - tip.offsetHeight - 2)}px`;
}
