// What our scripts find on the page, and what they leave there for each other.
interface Window {
  Plotly: any; // of a page that was exported, and of the report's
  _JUPYTERLAB: any; // the extensions of JupyterLab, by name
  loadervizLook: { adoptAll(): void; roomOf(place: Element): number }; // adopt_figures.js
  loadervizPlotly: any; // the one that a widget found
  loadervizSections: string[][]; // search.js, which pages/build.py makes
  loadervizFindPlotly: () => Promise<any>; // widget_scripts.js
}

interface Element {
  loadervizDrawn: Promise<void>; // exported_figures.js
  loadervizLarge: any; // large_timeline.js
  loadervizSeen: boolean; // reopened_notebook.js
}
