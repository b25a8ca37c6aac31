// The configuration, and all parts in the order of the page.

function showConfiguration() {
  /** @type {Map<string, string[][]>} */
  const sections = new Map();
  for (const [path, value] of Object.entries(report.result.configuration)) {
    const dot = path.indexOf('.'), section = path.slice(0, dot);
    if (path.startsWith('search.runner_up.') || path.startsWith('search.simulated.')) continue;  // shown above
    const rows = sections.get(section) || [];
    rows.push([path.slice(dot + 1), value]);
    sections.set(section, rows);
  }
  for (const [section, rows] of sections)
    byId('configuration-tables').append(table(['key', 'value'], rows, {caption: section}));
}

const ordered = Object.keys(kindStyles).filter((kind) => report.timeline.kinds.includes(kind));
const others = report.timeline.kinds.filter((kind) => !(kind in kindStyles));
showVerdict();
fillLegend(byId('timeline-legend'), [...ordered, ...others].map(styleOf));
const timeline = new Timeline(new Acts(report.timeline));
listenToTheme(() => timeline.redraw());
document.documentElement.dataset.timeline = (performance.now() - began).toFixed(0);  // ms, drawn
showMemory();
showLinks();
showLayouts();
showCandidates();
showSensitivity();
showErrors();
showConfiguration();
document.documentElement.dataset.ready = (performance.now() - began).toFixed(0);  // ms, all drawn
