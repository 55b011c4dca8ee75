// Of the figures in view: how many there are, and what is wrong with them.
// Text as large as a title needs a contrast of 3 to be legible (WCAG 2.1), other text 4.5.
() => {
  const TEXTS = [".gtitle", ".gtitle-subtitle", ".xtick text", ".ytick text", ".y2tick text",
    ".annotation-text", ".xtitle", ".ytitle"].join();
  const faults = [];
  const rgba = (text) => {
    const [r, g, b, a = 1] = (text.match(/[\d.]+/g) || []).map(Number);
    return { r, g, b, a: r === undefined ? 0 : a };
  };
  const light = ({ r, g, b }) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.04 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour.a > 0.5) return colour;
    }
    return { r: 255, g: 255, b: 255 };
  };
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const panel = document.querySelector(".jp-WindowedPanel-outer");
  const frame = panel ? panel.getBoundingClientRect() : { top: 0, bottom: innerHeight };
  const whole = (box) => box.height > 0 && box.top > frame.top - 1 && box.bottom < frame.bottom + 1;
  const seen = (node) => {
    const box = node.getBoundingClientRect();
    return box.width && box.height && box.bottom > frame.top && box.top < frame.bottom ? box : null;
  };
  let n = 0;
  for (const gd of document.querySelectorAll(".js-plotly-plot")) {
    const box = seen(gd);
    if (!box) continue;
    n += 1;
    const name = gd.querySelector(".gtitle")?.textContent ?? "a figure without a title";
    const drawn = gd.querySelector(".main-svg");
    if (!drawn?.getBoundingClientRect().height) faults.push(`not drawn: ${name}`);
    if (!gd.classList.contains("loaderviz")) faults.push(`not followed by our script: ${name}`);
    const [title, numbers] = [".gtitle", ".gtitle-subtitle"].map((each) => gd.querySelector(each));
    if (title && numbers && seen(title)) {
      const over = title.getBoundingClientRect().bottom - numbers.getBoundingClientRect().top;
      if (over > 2) faults.push(`the title and the numbers below it overlap: ${name}`);
    }
    for (const text of gd.querySelectorAll(TEXTS)) {
      const own = text.getBoundingClientRect();
      if (!own.width || !whole(own)) continue;
      const said = text.textContent;
      const beyond = Math.max(box.left - own.left, own.right - box.right, box.top - own.top);
      if (beyond > 1) faults.push(`clipped by ${Math.round(beyond)} px: "${said}" of ${name}`);
      const style = getComputedStyle(text);
      const size = parseFloat(style.fontSize);
      const least = size >= 18 ? 3 : 4.5;
      const is = contrast(rgba(style.fill), behind(gd));
      if (Number(style.opacity) < 0.5) continue;
      if (is < least) faults.push(`contrast ${is.toFixed(1)}: "${said}" of ${name}`);
      if (size < 9) faults.push(`${size} px: "${said}" of ${name}`);
    }
  }
  for (const picture of document.querySelectorAll(".jp-RenderedPlotly > .plot-img[src]")) {
    const shown = getComputedStyle(picture).display !== "none" && seen(picture);
    if (shown) faults.push("a figure is only a picture");
  }
  for (const picture of document.querySelectorAll(".jp-RenderedMarkdown img")) {
    if (picture.complete && !picture.naturalWidth) faults.push(`no picture: ${picture.alt}`);
  }
  const undone = [...document.querySelectorAll(".jp-OutputArea-output")]
    .filter((each) => /^(Error displaying|Loading) widget/.test(each.textContent) && seen(each));
  faults.push(...undone.map((each) => each.textContent.slice(0, 80)));
  return { n, faults };
}
