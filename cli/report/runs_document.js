// The document of a file of runs (cli/report_runs.h), and what parts of its page ask of it.
'use strict';

/**
 * @typedef {number | string | boolean | null} Cell
 * @typedef {Cell[]} Run by column
 * @typedef {{name: string, meaning: string, kind: 'asked' | 'key' | 'result', better: 'less' | 'more' | null}} RunColumn
 * @typedef {{runs: string, where: string, columns: RunColumn[], rows: Run[]}} RunsDocument
 */

const began = performance.now();

/** @type {RunsDocument} */
const runs = JSON.parse(byId('document').textContent || '');

/** Columns with numbers. */
const numeric = new Set(runs.columns.map((column) => column.name)
  .filter((name) => runs.rows.some((run) => isNumber(cellOf(run, name)))));
const asked = runs.columns.filter((column) => column.kind === 'asked');
const measures = runs.columns.filter((column) => column.better && numeric.has(column.name));

/** @param {string} name @returns {RunColumn} */
function columnNamed(name) {
  const found = runs.columns.find((column) => column.name === name);
  if (!found) throw new Error('no column ' + name);
  return found;
}

/** @param {Run} run @param {string} name @returns {Cell} */
function cellOf(run, name) {
  return run[runs.columns.findIndex((column) => column.name === name)];
}

/** @param {Cell} cell @returns {cell is number} */
function isNumber(cell) {
  return typeof cell === 'number';
}

/**
 * Endings of results' names that say the unit: how numbers in it read, and what the name becomes. The first that fits.
 * @type {[RegExp, (value: number) => string, string][]}
 */
const units = [
  [/_per_s$/, (value) => withCommas(value), ' per second'],
  [/_s$/, (value) => secondsText(value), ''],
  [/_bytes$/, (value) => bytesText(value), ''],
  [/_fraction$/, (value) => percent(value), ''],
  [/^mfu$/, (value) => percent(value), 'MFU'],
  [/^dollars/, (value) => '$' + fourDigits(value), 'dollars'],
];
/** @param {string} name of a result */
const unitOf = (name) => columnNamed(name).kind === 'result' ? units.find(([ending]) => ending.test(name)) : undefined;

/** "step time" of step_time_s; keys as a sweep names them. @param {string} name */
function title(name) {
  if (name === '' || columnNamed(name).kind !== 'result') return name;
  const unit = unitOf(name);
  return (unit ? name.replace(unit[0], unit[2]) : name).replaceAll('_', ' ');
}

/** "20.55 s", "40.1 %" @param {string} name @param {Cell} cell */
function cellText(name, cell) {
  if (cell === null) return '-';
  if (!isNumber(cell)) return String(cell);
  const unit = unitOf(name);
  if (unit) return unit[1](cell);
  return Number.isInteger(cell) ? String(cell) : fourDigits(cell);
}

/** All values of a column, each once: "gpt2, gpt2-xl"; empty where it is not there. @param {string} name */
function valuesText(name) {
  if (!runs.columns.some((column) => column.name === name)) return '';
  return [...new Set(runs.rows.map((run) => cellText(name, cellOf(run, name))))].join(', ');
}

/** "gpus 256, tp 4, pp 2" @param {Run} run */
function askedText(run) {
  return asked.map(({name}) => `${name} ${cellText(name, cellOf(run, name))}`).join(', ');
}

/** Of which less is better. @param {RunColumn} column @param {Cell} cell */
const badness = (column, cell) => (column.better === 'more' ? -Number(cell) : Number(cell));

/**
 * The run with the best value; of equal ones the fastest, then the first.
 * @param {RunColumn} column @param {Run[]} among @returns {Run | null}
 */
function best(column, among) {
  const known = among.filter((run) => isNumber(cellOf(run, column.name)));
  if (known.length === 0) return null;
  const least = Math.min(...known.map((run) => badness(column, cellOf(run, column.name))));
  const equal = known.filter((run) => badness(column, cellOf(run, column.name)) === least);
  /** @param {Run} run */
  const time = (run) => (isNumber(cellOf(run, 'step_time_s')) ? Number(cellOf(run, 'step_time_s')) : Infinity);
  return equal.reduce((found, run) => (time(run) < time(found) ? run : found));
}

/**
 * Runs that no other run beats: none is better in one column and no worse in the other (planner/solve/pareto.h). In
 * their order.
 * @param {RunColumn} x @param {RunColumn} y @param {Run[]} among
 */
function front(x, y, among) {
  const known = among.filter((run) => isNumber(cellOf(run, x.name)) && isNumber(cellOf(run, y.name)))
    .map((run) => ({run, x: badness(x, cellOf(run, x.name)), y: badness(y, cellOf(run, y.name))}))
    .sort((a, b) => a.x - b.x || a.y - b.y);
  /** @type {typeof known} */
  const kept = [];
  for (const one of known) {
    const last = kept.at(-1);
    if (!last || one.y < last.y || (one.x === last.x && one.y === last.y)) kept.push(one);
  }
  const found = new Set(kept.map((one) => one.run));
  return among.filter((run) => found.has(run));
}

/**
 * Whether a cell is what a filter asks for: "8", ">= 4", "< 2", "4..8", or a part of a text.
 * @param {string} name @param {Cell} cell @param {string} filter
 */
function passes(name, cell, filter) {
  const text = filter.trim();
  const range = /^(-?[\d.]+(?:e[+-]?\d+)?)\s*\.\.\s*(-?[\d.]+(?:e[+-]?\d+)?)$/i.exec(text);
  if (range) return isNumber(cell) && cell >= Number(range[1]) && cell <= Number(range[2]);
  const bound = /^(<=|>=|<|>|=|!=)\s*(.*)$/.exec(text);
  if (bound && bound[2] !== '' && Number.isFinite(Number(bound[2]))) {
    if (!isNumber(cell)) return false;
    const value = Number(bound[2]);
    return {'<=': cell <= value, '>=': cell >= value, '<': cell < value, '>': cell > value, '=': cell === value,
      '!=': cell !== value}[bound[1]] === true;
  }
  if (isNumber(cell) && text !== '' && Number.isFinite(Number(text))) return cell === Number(text);
  return cellText(name, cell).toLowerCase().includes(text.toLowerCase());
}
