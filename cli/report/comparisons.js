// The plan beside others: candidates of the search, other constants of the cluster, published runs.

function showCandidates() {
  const place = byId('candidate-table'), rows = report.candidates, step = report.result.step_time_s;
  if (rows.length === 0) {
    place.append(make('p', {}, 'The plan names no candidates: no search found it.'));
    byId('candidate-chart').remove();
    return;
  }
  byId('candidate-chart').append(candidateChart(rows));
  place.append(table(['#', '#step', '#against this', '#peak', '#GPUs', 'front', 'flags'],
    rows.map((c, i) => [String(i + 1), secondsText(c.step_time_s), c.this_plan ? 'this plan' : changeText(c.step_time_s, step),
      bytesText(c.peak_memory_bytes), String(c.gpus), c.front ? 'yes' : '',
      make('code', {}, c.flags + (c.layouts_found ? ' (layouts found)' : ''))]),
    {used: (row) => rows[row].this_plan, caption: 'Plans that the search simulated, fastest first. The diamond is this plan; ' +
      'filled ones are on the front: no other is better in step time or memory without being worse in the other.'}));
}

/** Step time and memory of each; the front as a line of steps. @param {Candidate[]} rows */
function candidateChart(rows) {
  const width = 720, height = 300, left = 62, right = width - 20, bottom = height - 42, limit = report.memory.limit_bytes;
  const front = rows.filter((c) => c.front);
  const x = linear(padded(rows.map((c) => c.step_time_s)), [left, right]).nice();
  const peaks = rows.map((c) => c.peak_memory_bytes);
  const isNear = limit < 2 * Math.max(...peaks);
  const y = linear(padded(isNear ? [...peaks, limit] : peaks), [bottom, 24]).nice();
  const svg = make('svg:svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `Step time and memory of ${rows.length} candidates, ${front.length} on the Pareto front; the table has the numbers`});
  addAxis(svg, d3.axisBottom(x).ticks(6).tickFormat((value) => secondsText(Number(value))), 0, bottom);
  addAxis(svg, d3.axisLeft(y).ticks(6).tickFormat((value) => bytesText(Number(value))), left, 0);
  const line = d3.line().curve(d3.curveStepAfter)(front.map((c) => [x(c.step_time_s), y(c.peak_memory_bytes)]));
  svg.append(make('svg:text', {x: right, y: height - 6, 'text-anchor': 'end'}, 'step time, less is better'),
    make('svg:text', {x: left + 6, y: 12}, 'memory of the fullest device, less is better'),
    make('svg:path', {class: 'limit', d: isNear ? `M${left},${y(limit)} H${right}` : ''}),
    make('svg:text', {x: right, y: isNear ? y(limit) + 13 : 12, 'text-anchor': 'end'},
      `limit ${bytesText(limit)}${isNear ? '' : ', above'}`),
    make('svg:path', {class: 'front', d: line || ''}));
  const points = d3.select(svg).selectAll('g.candidate').data(rows).join('g').attr('class', 'candidate')
    .classed('on-front', (c) => c.front).classed('this-plan', (c) => c.this_plan)
    .attr('transform', (c) => `translate(${x(c.step_time_s)},${y(c.peak_memory_bytes)})`);
  points.append('path').attr('d', (c) =>
    d3.symbol().type(c.this_plan ? d3.symbolDiamond : d3.symbolCircle).size(c.this_plan ? 130 : c.front ? 64 : 40)() || '');
  points.append('title').text((c) => `${secondsText(c.step_time_s)}, ${bytesText(c.peak_memory_bytes)}: ${c.flags}`);
  // A number where it hides no other.
  /** @type {[number, number][]} */
  const labelled = [];
  points.filter((c) => {
    const place = /** @type {[number, number]} */ ([x(c.step_time_s), y(c.peak_memory_bytes)]);
    if (labelled.some(([a, b]) => Math.abs(a - place[0]) < 18 && Math.abs(b - place[1]) < 12)) return false;
    labelled.push(place);
    return true;
  }).append('text').attr('class', 'halo').attr('x', 8).attr('y', -5).text((c) => String(rows.indexOf(c) + 1));
  return svg;
}

/** From the least to the largest, with some room. @param {number[]} values @returns {[number, number]} */
function padded(values) {
  const least = Math.min(...values), most = Math.max(...values), room = (most - least || most) * 0.06;
  return [Math.max(0, least - room), most + room];
}

const cellWidth = 320;  // of a drawing in a table

/** The head of a column of drawings: an axis. @param {d3.ScaleLinear<number, number>} x @param {(value: number) => string} text */
function axisCell(x, text) {
  const svg = make('svg:svg', {width: cellWidth, height: 20, 'aria-hidden': 'true'});
  addAxis(svg, d3.axisTop(x).ticks(5).tickFormat((value) => text(Number(value))), 0, 19);
  return svg;
}

function showSensitivity() {
  const place = byId('sensitivity-table'), all = report.sensitivity, step = report.result.step_time_s;
  if (!all) {
    place.append(make('p', {}, 'Left out (--no-sensitivity).'));
    return;
  }
  /** @param {number | null} seconds */
  const growth = (seconds) => (seconds === null ? 0 : seconds / step - 1);
  /** @param {Sensitive} row */
  const effect = (row) => Math.max(Math.abs(growth(row.half_step_s)), Math.abs(growth(row.double_step_s)));
  const rows = [...all].sort((a, b) => effect(b) - effect(a));
  const changes = rows.flatMap((row) => [growth(row.half_step_s), growth(row.double_step_s)]);
  const x = linear([Math.min(-0.01, ...changes), Math.max(0.01, ...changes)], [24, cellWidth - 24]).nice(5);
  /** @type {[string, Style][]} */
  const styles = [['half', style('#e69f00', '#000000', 'rising', 'halved')], ['double', style('#0072b2', '#ffffff', 'solid', 'doubled')]];
  fillLegend(byId('sensitivity-legend'), styles.map(([, one]) => one));
  /** @param {Sensitive} row */
  const bars = (row) => {
    const svg = make('svg:svg', {width: cellWidth, height: 26, 'aria-hidden': 'true'});
    const fills = svgFills(svg, 'sensitivity-' + row.name, styles);
    [row.half_step_s, row.double_step_s].forEach((seconds, i) => {
      if (seconds === null) return;
      const [from, to] = [x(0), x(growth(seconds))].sort(d3.ascending);
      svg.append(make('svg:rect', {x: from, y: 2 + 12 * i, width: Math.max(1, to - from), height: 10, fill: fills(styles[i][0])}));
    });
    svg.append(make('svg:path', {class: 'axis', d: `M${x(0)},0 V26`}));
    return svg;
  };
  /** @param {number | null} seconds */
  const text = (seconds) => (seconds === null ? 'out of bounds' : `${secondsText(seconds)} (${changeText(seconds, step)})`);
  const signed = d3.format('+.0%');
  place.append(table(['constant', 'what it is', '#step, halved', '#step, doubled', axisCell(x, (value) => (value === 0 ? '0' : signed(value)))],
    rows.map((row) => [make('code', {}, row.name), row.what, text(row.half_step_s), text(row.double_step_s), bars(row)]),
    {caption: `The same plan, simulated with one constant of the cluster otherwise, against a step of ${secondsText(step)}.`}));
}

function showErrors() {
  byId('error-text').textContent = report.errors.text[0].toUpperCase() + report.errors.text.slice(1) + '.';
  const rows = report.errors.rows, step = report.result.step_time_s;
  const x = linear(padded([step, ...rows.flatMap((row) => row.step_time_range_s)]), [28, cellWidth - 28]).nice(5);
  /** @param {ErrorRow} row */
  const interval = (row) => {
    const height = 18, [from, to] = row.step_time_range_s.map((seconds) => x(seconds));
    return make('svg:svg', {width: cellWidth, height, 'aria-hidden': 'true'},
      make('svg:path', {class: 'axis', d: `M${x(step)},0 V${height}`}),
      make('svg:path', {class: row.used ? 'interval used' : 'interval', d: intervalPath(from, to, height / 2)}));
  };
  byId('error-table').append(table(
    ['framework', 'device', '#GPUs', '#published steps', '#within', '#step from', '#to', axisCell(x, secondsText)],
    rows.map((row) => [row.framework, row.device, row.least_gpus > 1 ? 'more than 8' : '1 to 8', String(row.published_steps),
      percent(row.share), secondsText(row.step_time_range_s[0]), secondsText(row.step_time_range_s[1]), interval(row)]),
    {used: (row) => rows[row].used, caption: 'The rows of published runs that are nearest to the job; the bold one makes this ' +
      "step's error bar. Nine of ten published steps lie in the interval that a row gives. The line is the simulated " +
      `step, ${secondsText(step)}.`}));
}
