// Communication: what moves over which link, of all stages as a picture, of one as a table.

function showLinks() {
  byId('link-chart').append(linkChart());
  const select = /** @type {HTMLSelectElement} */ (byId('link-stage'));
  const stages = [...new Set(report.links.map((link) => link.stage))];
  select.append(...stages.map((stage) => make('option', {}, stage)));
  select.addEventListener('change', () => showStageLinks(select.value));
  showStageLinks(select.value);
  byId('communications').append(report.communications.length === 0 ? make('p', {}, 'Nothing is moved.') : table(
    ['#a step', '#bytes', '#acts', 'stage', 'over', 'what', 'why'],
    report.communications.map((c) => [secondsText(c.s), bytesText(c.bytes), String(c.acts), c.stage, c.over || '-',
      make('code', {}, c.name), c.why])));
}

/** @param {string} stage */
function showStageLinks(stage) {
  const rows = report.links.filter((link) => link.stage === stage), step = report.result.step_time_s;
  const most = Math.max(step, ...rows.map((link) => link.simulated_s));
  byId('links').replaceChildren(rows.length === 0 ? make('p', {}, 'Nothing is moved.') : table(
    ['link', '#bytes/s, one way', 'what', 'over', '#acts', '#bytes', '#alone', '#simulated', '#of the step', 'as a bar'],
    rows.map((link) => [link.link,
      link.link_bandwidth_bytes_per_s > 0 ? bytesText(link.link_bandwidth_bytes_per_s) + '/s' : '-',
      styleOf(link.what).label, link.over || '-', d3.format(',')(link.acts), bytesText(link.bytes), secondsText(link.alone_s),
      secondsText(link.simulated_s), percent(link.simulated_s / step),
      bar(link.simulated_s, most, styleOf(link.what).colour)]),
    {caption: `One device of ${stage || 'the plan'}. The bar's frame is the step, ${secondsText(step)}.`}));
}

/**
 * By stage and link the time of each kind of communication, one behind the other.
 */
function linkChart() {
  const stages = [...new Set(report.links.map((link) => link.stage))];
  const links = [...new Set(report.links.map((link) => link.link))];
  const kinds = [...new Set(report.links.map((link) => link.what))];
  if (stages.length === 0) return make('p', {}, 'Nothing is moved.');
  const left = 8 + 6.5 * Math.max(...stages.map((stage) => stage.length)), head = 40, row = 18, gap = 24;
  const width = 980, height = head + stages.length * row + 6;
  const svg = make('svg:svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': 'Time of a step in which a device of each stage communicates, by link; the table below has the numbers'});
  const fills = svgFills(svg, 'link', kinds.map((kind) => [kind, styleOf(kind)]));
  const panel = d3.scaleBand().domain(links).range([left, width - 12]).paddingInner(gap / ((width - left) / links.length));
  const y = d3.scaleBand().domain(stages).range([head, height - 6]).padding(0.15);
  /** @type {Map<string, number>} */
  const sums = new Map();
  const parts = report.links.map((link) => {
    const key = link.stage + ' ' + link.link, from = sums.get(key) || 0;
    sums.set(key, from + link.simulated_s);
    return {...link, from};
  });
  const most = Math.max(...sums.values());
  const x = linear([0, most], [0, panel.bandwidth()]);
  const ticks = Math.max(2, Math.min(5, panel.bandwidth() / 90));
  for (const link of links) {
    svg.append(make('svg:text', {x: panel(link) || 0, y: 11, class: 'strong'}, link));
    addAxis(svg, d3.axisTop(x).ticks(ticks).tickFormat((value) => secondsText(Number(value))).tickSizeInner(-(height - head)),
      panel(link) || 0, head - 4);
  }
  for (const stage of stages)
    svg.append(make('svg:text', {x: left - 8, y: (y(stage) || 0) + y.bandwidth() / 2 + 4, 'text-anchor': 'end'}, stage));
  d3.select(svg).selectAll('rect.moved').data(parts).join('rect').attr('class', 'moved')
    .attr('x', (part) => (panel(part.link) || 0) + x(part.from)).attr('y', (part) => y(part.stage) || 0)
    .attr('width', (part) => x(part.simulated_s)).attr('height', y.bandwidth()).attr('fill', (part) => fills(part.what))
    .append('title').text((part) => `${styleOf(part.what).label}${part.over ? ' over ' + part.over : ''}: ` +
      `${bytesText(part.bytes)}, ${secondsText(part.simulated_s)}, ${percent(part.simulated_s / report.result.step_time_s)} of the step`);
  fillLegend(byId('link-legend'), kinds.map(styleOf));
  return svg;
}
