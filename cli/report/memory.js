// Memory: what a device of each stage holds over the step, stacked by kind, below its limit.

/** @typedef {{from: number, held: Record<string, number>}} HeldBytes bytes by kind from a window of the step on */

function showMemory() {
  const kinds = Object.keys(memoryStyles);
  fillLegend(byId('memory-legend'), kinds.map((kind) => memoryStyles[kind]));
  const toLimit = /** @type {HTMLInputElement} */ (byId('memory-scale'));
  toLimit.checked = report.stages.some((stage) => stage.peak_memory_bytes > report.memory.limit_bytes / 4);
  toLimit.addEventListener('change', drawMemory);
  drawMemory();
  const limit = report.memory.limit_bytes;
  const rows = report.stages.map((stage) => [
    stage.name, String(stage.gpus), shortList(stage.layers) || '-', stage.mesh || '-', String(stage.in_flight),
    bytesText(stage.peak_memory_bytes), percent(stage.peak_memory_bytes / limit),
    ...kinds.map((kind) => bytesText(stage.memory_bytes[kind])),
    secondsText(stage.busy_s), percent(stage.bubble_fraction), secondsText(stage.exposed_comm_s)]);
  byId('memory-table').append(table(
    ['stage', '#GPUs', 'layers', 'mesh', '#in flight', '#peak', '#of limit', ...kinds.map((kind) => '#' + kind), '#busy',
      '#idle', '#exposed'],
    rows, {caption: `One device of each stage, limit ${bytesText(limit)}. In flight: micro-batches that there is room for.`}));
}

/** "0, 4, 8, 12" by its ends where it is long. @param {string} text */
function shortList(text) {
  const most = 16;  // letters
  if (text.length <= most) return text;
  return text.slice(0, text.indexOf(',')) + ' ... ' + text.slice(text.lastIndexOf(' ') + 1);
}

/** The windows in which anything changes, and the end. @param {Record<string, number[]>} held @returns {HeldBytes[]} */
function changesOf(held) {
  const {windows, unit_bytes: unit} = report.memory, kinds = Object.keys(held);
  const all = [];
  for (let w = 0; w <= windows; ++w) {
    const at = Math.min(w, windows - 1);
    if (w > 0 && w < windows && kinds.every((kind) => held[kind][w] === held[kind][w - 1])) continue;
    all.push({from: w, held: Object.fromEntries(kinds.map((kind) => [kind, held[kind][at] * unit]))});
  }
  return all;
}

function drawMemory() {
  const toLimit = /** @type {HTMLInputElement} */ (byId('memory-scale')).checked;
  const {limit_bytes: limit, stages} = report.memory, {classes, programs} = report.timeline;
  const kinds = stages.length > 0 ? Object.keys(memoryStyles).filter((kind) => kind in stages[0].held) : [];
  const stack = /** @type {() => d3.Stack<unknown, HeldBytes, string>} */ (d3.stack)().keys(kinds)
    .value((window, kind) => window.held[kind]);
  const charts = stages.map((stage) => {
    const {name} = programs[classes[stage.class].program], series = stack(changesOf(stage.held));
    const taken = report.stages.find((one) => one.name === name);
    return {name, series, held: d3.max(series[series.length - 1] || [], (point) => point[1]) || 0,
      peak: taken ? taken.peak_memory_bytes : 0};
  });
  const most = Math.max(1, ...charts.map((chart) => Math.max(chart.held, chart.peak)), toLimit ? limit * 1.04 : 0);
  byId('memory-charts').replaceChildren(...charts.map((chart, c) =>
    make('figure', {}, make('figcaption', {}, make('strong', {}, chart.name),
      `: peak ${bytesText(chart.peak)}, held ${bytesText(chart.held)}`), memoryChart(chart, most, c))));
}

/**
 * @param {{name: string, series: d3.Series<HeldBytes, string>[], held: number, peak: number}} chart
 * @param {number} most of the axis, in bytes @param {number} number of the chart
 */
function memoryChart({name, series, held, peak}, most, number) {
  const {windows, limit_bytes: limit} = report.memory, {step_ticks: ticks, tick_s: seconds} = report.timeline;
  const width = 300, height = 160, left = 50, right = width - 12, bottom = height - 20;
  const x = linear([0, windows], [left, right]);
  const y = linear([0, most], [bottom, 16]);
  const svg = make('svg:svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `${name}: at most ${bytesText(held)} in registers, peak ${bytesText(peak)}, limit ${bytesText(limit)}`});
  const fills = svgFills(svg, `memory-${number}`, Object.entries(memoryStyles));
  const area = /** @type {() => d3.Area<d3.SeriesPoint<HeldBytes>>} */ (d3.area)().curve(d3.curveStepAfter)
    .x((point) => Math.round(x(point.data.from) * 10) / 10).y0((point) => Math.round(y(point[0]) * 10) / 10)
    .y1((point) => Math.round(y(point[1]) * 10) / 10);
  d3.select(svg).selectAll('path.held').data(series).join('path').attr('class', 'held')
    .attr('fill', (one) => fills(one.key)).attr('d', area);
  const bytes = d3.axisLeft(y).ticks(5).tickFormat((value) => bytesText(Number(value)));
  addAxis(svg, bytes, left, 0);
  const time = linear([0, ticks * seconds], [left, right]);
  addAxis(svg, d3.axisBottom(time).ticks(4).tickFormat((value) => secondsText(Number(value))), 0, bottom);
  /** @param {string} kind @param {number} value @param {number} at @param {string} anchor @param {number} down of its text */
  const line = (kind, value, at, anchor, down) => {
    if (value > most) return;
    svg.append(make('svg:path', {class: kind, d: `M${left},${y(value)} H${right}`}),
      make('svg:text', {x: at, y: y(value) + down, 'text-anchor': anchor, class: 'halo'}, `${kind} ${bytesText(value)}`));
  };
  line('peak', peak, left + 4, 'start', Math.abs(y(peak) - y(limit)) < 16 ? 12 : -4);
  line('limit', limit, right - 3, 'end', 12);
  return svg;
}
