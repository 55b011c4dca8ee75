// Titles that fit. plotly cuts a title that is wider than its figure; a smaller one, or one on two
// lines, can still be read.
const TITLE_EDGE = 12;  // px that stay free beside it
const AXIS_TITLE_EDGE = 2;
const LEAST_ON_ONE_LINE = 0.8;  // of the size it was given; below that it takes two lines
const MOST_ON_TWO = 0.84;
const LEAST_PX = 10;
const LINE = 1.25;  // times the size of the type
const GAP_PX = { one: 13, two: 3 };  // below a title of one line, or of two

function fitTitles(gd) {
  fitTimeAxisTitle(gd);
  const title = gd._fullLayout?.title;
  const drawn = title && gd.querySelector(".gtitle");
  if (!drawn) return;
  const room = widthOfFigure(gd) - Number(drawn.getAttribute("x")) - TITLE_EDGE;
  if (room <= 0) return;
  const { size, lines } = fitted(drawn, title.font, room);
  const under = gd.querySelector(".gtitle-subtitle");
  if (!under || !title.subtitle) return;
  fitted(under, title.subtitle.font, room);
  // plotly puts it by the title's height, which is none while the page does not show it.
  const below = Number(drawn.getAttribute("y")) + lines * LINE * size;
  under.setAttribute("y", below + (lines > 1 ? GAP_PX.two : GAP_PX.one));
}

// It stands in the middle of its axis: beside wide names of lanes there is less room to its right.
function fitTimeAxisTitle(gd) {
  const drawn = gd.querySelector(".g-xtitle text");
  const font = gd._fullLayout?.xaxis?.title?.font;
  if (!drawn || !font) return;
  const middle = Number(drawn.getAttribute("x"));
  const room = 2 * (Math.min(middle, widthOfFigure(gd) - middle) - AXIS_TITLE_EDGE);
  if (room <= 0) return;
  const scale = room / widthOfText(wordsOf(drawn), `${font.size}px ${font.family}`);
  drawn.style.fontSize = `${Math.min(font.size, Math.max(LEAST_PX, font.size * scale))}px`;
}

// Draws the text in the largest type in which it fits; tells the size and the number of lines.
function fitted(text, { size, family }, room) {
  const words = wordsOf(text);
  const bold = /^<b>/.test(text.dataset.unformatted || "") ? "bold " : "";
  const width = (part) => widthOfText(part, `${bold}${size}px ${family}`);
  const scale = room / width(words);
  if (scale >= 1 || /<br/.test(text.dataset.unformatted || "")) {
    return set(text, Math.min(size, Math.max(LEAST_PX, size * scale)), [words], bold);
  }
  if (scale >= LEAST_ON_ONE_LINE) return set(text, size * scale, [words], bold);
  const lines = halves(words, width);
  const px = Math.min(MOST_ON_TWO * size, Math.max(LEAST_PX, size * room / Math.max(...lines.map(width))));
  return set(text, px, lines.map((line) => cut(line, room * size / px, width)), bold);
}

// The text as plotly drew it; afterwards it may stand on several lines.
function wordsOf(text) {
  if (text.dataset.fitted !== text.dataset.unformatted || !text.dataset.words) {
    text.dataset.fitted = text.dataset.unformatted;
    text.dataset.words = text.textContent;
  }
  return text.dataset.words;
}

function set(text, size, lines, bold) {
  text.style.fontSize = `${size}px`;
  const drawn = text.querySelectorAll(".loaderviz-line");
  const whole = lines.length === 1 && lines[0] === wordsOf(text);
  if (whole && !drawn.length) return { size, lines: 1 };
  const x = text.getAttribute("x");
  const spans = lines.map((line, i) => {
    const span = document.createElementNS("http://www.w3.org/2000/svg", "tspan");
    span.setAttribute("class", "loaderviz-line");
    span.setAttribute("x", x);
    span.setAttribute("dy", i ? `${LINE}em` : text.getAttribute("dy"));
    if (bold) span.style.fontWeight = "bold";
    span.textContent = i < lines.length - 1 ? `${line} ` : line;
    return span;
  });
  text.replaceChildren(...spans);
  return { size, lines: lines.length };
}

// Two lines, of which the longer is as short as can be.
function halves(words, width) {
  const parts = words.split(" ");
  let best = [words];
  let least = Infinity;
  for (let i = 1; i < parts.length; i++) {
    const lines = [parts.slice(0, i).join(" "), parts.slice(i).join(" ")];
    const longer = Math.max(...lines.map(width));
    if (longer < least) [best, least] = [lines, longer];
  }
  return best;
}

// As much of a line as there is room for.
function cut(line, room, width) {
  if (width(line) <= room + 0.5) return line;
  let kept = line;
  while (kept && width(`${kept}…`) > room) kept = kept.slice(0, -1);
  return `${kept.trimEnd()}…`;
}
