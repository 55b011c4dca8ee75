// The search of the pages that `make site` makes: through an index that lies beside them and is loaded
// when it is first asked for. Shares one scope with the figures' scripts.
const MOST_FOUND = 12;
const AROUND = 70;  // letters of the text that are shown on each side of what was found

function tendSearch(box) {
  const input = box.querySelector("input");
  const list = box.querySelector("ul");
  let loading = null;
  const load = () => (loading ??= loadScript("search.js"));
  const show = async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    await load();
    const found = words.length ? foundIn(window.loadervizSections, words) : [];
    list.hidden = !words.length;
    list.replaceChildren(...found.map((each) => linkTo(each, words)));
    if (words.length && !found.length) list.append(itemOf("Nothing found"));
  };
  input.disabled = false;
  input.addEventListener("focus", load);
  input.addEventListener("input", show);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { list.hidden = true; input.focus(); }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const stops = [input, ...list.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    stops[Math.min(Math.max(at, 0), stops.length - 1)].focus();
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) list.hidden = true; });
}

// Sections that have all the words; those that have them in their headings first.
function foundIn(sections, words) {
  const marks = sections.map(([, title, , heading, text]) => {
    const [high, low] = [`${title} ${heading}`.toLowerCase(), text.toLowerCase()];
    if (!words.every((word) => high.includes(word) || low.includes(word))) return 0;
    return 1 + 10 * words.filter((word) => heading.toLowerCase().includes(word)).length
      + words.reduce((sum, word) => sum + Math.min(low.split(word).length - 1, 9) / 10, 0);
  });
  return sections.map((section, i) => ({ section, mark: marks[i] }))
    .filter(({ mark }) => mark).sort((a, b) => b.mark - a.mark)
    .slice(0, MOST_FOUND).map(({ section }) => section);
}

function linkTo([page, title, anchor, heading, text], words) {
  const link = document.createElement("a");
  link.href = `${page}#${anchor}`;
  const name = document.createElement("b");
  name.textContent = heading === title ? title : `${title.split(":")[0]} › ${heading}`;
  const at = Math.max(...words.map((word) => text.toLowerCase().indexOf(word)));
  const from = Math.max(at - AROUND, 0);
  const around = document.createElement("small");
  around.textContent = `${from ? "… " : ""}${text.slice(from, Math.max(at, 0) + AROUND)} …`;
  link.append(name, around);
  return itemOf(link);
}

function itemOf(content) {
  const item = document.createElement("li");
  item.append(content);
  return item;
}
