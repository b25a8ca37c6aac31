// Elements, tables, and numbers as text.

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error('no element ' + id);
  return found;
}

/**
 * "p", or "svg:rect".
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function make(tag, attributes = {}, ...children) {
  const made = /** @type {HTMLElement} */ (d3.create(tag).node());
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * A table; a cell is text, or a node. Columns whose title begins with "#" hold numbers.
 * @param {(string | Node)[]} titles
 * @param {(string | Node)[][]} rows
 * @param {{caption?: string, used?: (row: number) => boolean}} options
 */
function table(titles, rows, options = {}) {
  const numeric = titles.map((title) => typeof title === 'string' && title.startsWith('#'));
  const made = make('table');
  const whole = d3.select(made);
  if (options.caption) whole.append('caption').text(options.caption);
  /** @this {Element} @param {string | Node} cell */
  const put = function (cell) { this.append(cell); };
  whole.append('thead').append('tr').selectAll('th').data(titles).enter().append('th').attr('scope', 'col')
    .classed('number', (_, i) => numeric[i])
    .each(function (title) { this.append(typeof title === 'string' ? title.replace(/^#/, '') : title); });
  const used = options.used || (() => false);
  const lines = whole.append('tbody').selectAll('tr').data(rows).enter().append('tr').classed('used', (_, r) => used(r));
  lines.append('th').attr('scope', 'row').classed('number', numeric[0]).datum((row) => row[0]).each(put);
  lines.selectAll('td').data((row) => row.slice(1)).enter().append('td').classed('number', (_, i) => numeric[i + 1]).each(put);
  return made;
}

const threeDigits = d3.format('.3~s'), fourDigits = d3.format('.4~r'), fourScaled = d3.format('.4~s');
const withCommas = d3.format(',.4~r'), tenth = d3.format('.1f'), signedTenth = d3.format('+.1f');

/** "26.3 GB" @param {number} bytes */
const bytesText = (bytes) => threeDigits(bytes).replace(/[a-zA-Z]?$/, ' $&B');

/** "30.14 s", "344.7 ms" @param {number} seconds */
function secondsText(seconds) {
  if (seconds === 0) return '0 s';
  return Math.abs(seconds) >= 1 ? fourDigits(seconds) + ' s' : fourScaled(seconds).replace(/[a-zµ]?$/, ' $&s');
}

/**
 * A moment of the step, as exact as `precision`, in the unit for moments up to `most`.
 * @param {number} seconds @param {number} precision in s @param {number} most
 */
function momentText(seconds, precision = 1e-6, most = seconds) {
  const [factor, unit] = Math.abs(most) >= 1 ? [1, 's'] : [1e3, 'ms'];
  return d3.format(`.${d3.precisionFixed(precision * factor)}f`)(seconds * factor) + ' ' + unit;
}

/** @param {number} share */
const percent = (share) => tenth(100 * share) + ' %';

/** "+2.4 %" of one number over another. @param {number} value @param {number} base */
function changeText(value, base) {
  const growth = signedTenth(100 * (value / base - 1));
  return (Number(growth) === 0 ? '0.0' : growth) + ' %';
}

/** @param {[string, string][]} lines */
function descriptionList(lines) {
  const list = make('dl', {class: 'act'});
  for (const [name, text] of lines) list.append(make('dt', {}, name), make('dd', {}, text));
  return list;
}

/** @typedef {((value: d3.NumberValue) => number) & d3.ScaleLinear<number, number>} Linear numbers here are finite */
/** @param {[number, number]} domain @param {[number, number]} range */
const linear = (domain, range) => /** @type {Linear} */ (d3.scaleLinear().domain(domain).range(range));

/**
 * @param {Element} svg @param {d3.Axis<d3.NumberValue>} axis @param {number} x @param {number} y
 */
function addAxis(svg, axis, x, y) {
  d3.select(svg).append('g').attr('class', 'scale').attr('transform', `translate(${x},${y})`)
    .call(axis.tickSizeOuter(0)).attr('font-family', null).attr('font-size', null);
}
