// Charts of the trade-offs between runs, and of the effect of each key alone.

const okabeIto = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#999999'];
const chart = {width: 860, height: 420, left: 84, right: 24, top: 14, bottom: 52};

/** @param {string} id @param {string[]} names @param {string} chosen @param {() => void} changed */
function fillSelect(id, names, chosen, changed) {
  const select = /** @type {HTMLSelectElement} */ (byId(id));
  for (const name of names) select.append(make('option', {value: name}, title(name)));
  select.value = names.includes(chosen) ? chosen : names[0] || '';
  select.addEventListener('change', changed);
}

/** @param {string} id */
const selected = (id) => /** @type {HTMLSelectElement} */ (byId(id)).value;

/** A scale over the values with a twentieth of room. @param {number[]} values @param {[number, number]} range */
function roomy(values, range) {
  const least = Math.min(...values), most = Math.max(...values), room = (most - least || Math.abs(most) || 1) / 20;
  return linear([least - room, most + room], range);
}

/** @param {string} name */
const tickText = (name) => (/** @param {d3.NumberValue} value */ (value) => cellText(name, Number(value)));

/** A colour and a shape for each value of a key. @param {string} name @param {Run[]} shown */
function marks(name, shown) {
  const values = name ? [...new Set(shown.map((run) => cellOf(run, name)))] : [];
  values.sort((a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a) < String(b) ? -1 : 1));
  /** @param {Cell} value */
  const rank = (value) => Math.max(0, values.indexOf(value));
  return {values,
    /** @param {Cell} value */
    colour: (value) => okabeIto[rank(value) % okabeIto.length],
    /** @param {Cell} value */
    path: (value) => d3.symbol().type(d3.symbols[rank(value) % d3.symbols.length]).size(70)() || ''};
}

/** @param {Run[]} passing @param {Run | null} chosen @param {(run: Run) => void} choose */
function drawTradeOff(passing, chosen, choose) {
  const x = columnNamed(selected('x-column')), y = columnNamed(selected('y-column')), key = selected('mark-column');
  const shown = passing.filter((run) => isNumber(cellOf(run, x.name)) && isNumber(cellOf(run, y.name)));
  const svg = make('svg:svg', {viewBox: `0 0 ${chart.width} ${chart.height}`, role: 'img',
    'aria-label': `${title(y.name)} over ${title(x.name)} of ${shown.length} runs`});
  byId('trade-off-chart').replaceChildren(shown.length > 0 ? svg : 'No row has both values.');
  const kept = x.better && y.better && x !== y ? front(x, y, shown) : [];
  showFront(x, y, kept);
  const look = marks(key, shown);
  byId('trade-off-legend').replaceChildren(...look.values.map((value) => make('li', {},
    make('svg:svg', {width: 16, height: 16, viewBox: '-8 -8 16 16', 'aria-hidden': 'true'},
      make('svg:path', {d: look.path(value), fill: look.colour(value)})), `${title(key)} ${cellText(key, value)}`)));
  if (shown.length === 0) return;
  const along = roomy(shown.map((run) => Number(cellOf(run, x.name))), [chart.left, chart.width - chart.right]);
  const up = roomy(shown.map((run) => Number(cellOf(run, y.name))), [chart.height - chart.bottom, chart.top]);
  addAxis(svg, d3.axisBottom(along).ticks(7).tickFormat(tickText(x.name)), 0, chart.height - chart.bottom);
  addAxis(svg, d3.axisLeft(up).ticks(7).tickFormat(tickText(y.name)), chart.left, 0);
  svg.append(make('svg:text', {x: chart.width / 2, y: chart.height - 10, 'text-anchor': 'middle'}, title(x.name)),
    make('svg:text', {transform: `translate(14,${chart.height / 2}) rotate(-90)`, 'text-anchor': 'middle'}, title(y.name)));
  /** @param {Run} run */
  const place = (run) => [along(Number(cellOf(run, x.name))), up(Number(cellOf(run, y.name)))];
  const line = [...kept].map(place).sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  if (line.length > 1) svg.append(make('svg:path', {class: 'front', d: d3.line()(/** @type {[number, number][]} */ (line)) || ''}));
  for (const run of shown) {
    const value = key ? cellOf(run, key) : null;
    const mark = make('svg:path', {class: 'run', d: look.path(value), fill: look.colour(value),
      transform: `translate(${place(run)})`, 'data-front': String(kept.includes(run)),
      'data-chosen': String(run === chosen), 'data-row': runs.rows.indexOf(run)},
      make('svg:title', {}, `${askedText(run)}\n${title(x.name)} ${cellText(x.name, cellOf(run, x.name))}, ` +
        `${title(y.name)} ${cellText(y.name, cellOf(run, y.name))}`));
    mark.addEventListener('click', () => choose(run));
    svg.append(mark);
  }
}

/** @param {RunColumn} x @param {RunColumn} y @param {Run[]} kept */
function showFront(x, y, kept) {
  if (!x.better || !y.better || x === y) {
    byId('front').replaceChildren('A front needs two columns of which less or more is better.');
    return;
  }
  const sorted = [...kept].sort((a, b) => badness(x, cellOf(a, x.name)) - badness(x, cellOf(b, x.name)));
  const names = [...asked.map((column) => column.name).filter((name) => name !== x.name && name !== y.name), x.name, y.name];
  byId('front').replaceChildren(table(names.map((name) => (sorted.every((run) => isNumber(cellOf(run, name))) ? '#' : '') + title(name)),
    sorted.map((run) => names.map((name) => cellText(name, cellOf(run, name)))),
    {caption: `The front: no other run of those shown is better in one of ${title(x.name)} and ${title(y.name)} and no worse in the other.`}));
}

/** Runs that differ from `base` in one key at most. @param {Run} base @param {string} name @param {Run[]} passing */
function alongKey(base, name, passing) {
  const others = asked.filter((column) => column.name !== name);
  return passing.filter((run) => others.every((column) => cellOf(run, column.name) === cellOf(base, column.name)));
}

/** @param {Run[]} passing @param {Run | null} chosen */
function drawEffects(passing, chosen) {
  const measure = columnNamed(selected('effect-column'));
  const base = chosen || best(measure, passing);
  byId('effect-base').textContent = base
    ? `From ${chosen ? 'the chosen row' : `the row with the best ${title(measure.name)}`}: ${askedText(base)}.` : 'No row has a value.';
  byId('effects').replaceChildren();
  if (!base) return;
  const from = cellOf(base, measure.name);
  for (const {name} of asked) {
    const found = alongKey(base, name, passing);
    if (found.length < 2) continue;
    const rows = found.map((run) => {
      const value = cellOf(run, measure.name);
      const change = run === base || !isNumber(value) || !isNumber(from) || from === 0 ? '' : changeText(value, from);
      return [cellText(name, cellOf(run, name)), isNumber(value) ? cellText(measure.name, value) : String(cellOf(run, 'status')), change];
    });
    const drawn = table([name, '#' + title(measure.name), '#change'], rows, {used: (row) => found[row] === base});
    drawn.dataset.axis = name;
    byId('effects').append(drawn);
  }
  if (!byId('effects').hasChildNodes()) byId('effects').append('No row differs from it in one key alone.');
}
