// The table of runs: sorted by any column, filtered by all, with the run that effects are counted from.

const firstRows = 200;
const usualColumns = ['point', 'model', 'cluster', 'gpus', 'status', 'fits', 'step_time_s', 'tokens_per_s', 'samples_per_s', 'mfu', 'bubble_fraction',
  'exposed_comm_s', 'peak_memory_bytes', 'bound_by', 'dollars_per_step', 'flags', 'why_not'];

/** @param {string} name @returns {Record<string, string>} */
const alignment = (name) => (numeric.has(name) ? {class: 'number'} : {});

class RunsTable {
  /** @param {() => void} changed is called when other runs pass the filters, or another one is chosen */
  constructor(changed) {
    this.changed = changed;
    /** @type {Map<string, string>} */
    this.filters = new Map();
    this.passing = runs.rows;
    this.sortedBy = 'point';
    this.descending = false;
    this.whole = false;  // all columns
    this.every = false;  // all rows
    /** @type {Run | null} */
    this.chosen = null;
    byId('all-columns').addEventListener('change', (event) => {
      this.whole = /** @type {HTMLInputElement} */ (event.target).checked;
      this.drawHead();
      this.draw();
    });
    byId('all-rows').addEventListener('click', () => {
      this.every = true;
      this.draw();
    });
    byId('no-filters').addEventListener('click', () => {
      this.filters.clear();
      this.drawHead();
      this.filter();
    });
  }

  start() {
    this.drawHead();
    this.filter();
  }

  columns() {
    return runs.columns.filter((column) =>
      this.whole || column.kind === 'asked' || usualColumns.includes(column.name));
  }

  drawHead() {
    const titles = make('tr'), inputs = make('tr', {class: 'filters'});
    for (const column of this.columns()) {
      const button = make('button', {type: 'button', title: `${column.name}: ${column.meaning}`}, title(column.name));
      button.addEventListener('click', () => this.sort(column.name));
      titles.append(make('th', {scope: 'col', 'data-column': column.name, ...alignment(column.name)}, button));
      const input = /** @type {HTMLInputElement} */ (make('input', {type: 'search', 'aria-label': 'filter of ' + column.name,
        value: this.filters.get(column.name) || '', 'data-column': column.name}));
      input.addEventListener('input', () => {
        if (input.value.trim() === '') this.filters.delete(column.name);
        else this.filters.set(column.name, input.value);
        this.filter();
      });
      inputs.append(make('td', {}, input));
    }
    byId('runs-head').replaceChildren(titles, inputs);
  }

  /** @param {string} name */
  sort(name) {
    const column = columnNamed(name);
    this.descending = this.sortedBy === name ? !this.descending : column.better === 'more';
    this.sortedBy = name;
    this.draw();
  }

  filter() {
    const filters = [...this.filters];
    this.passing = runs.rows.filter((run) => filters.every(([name, text]) => passes(name, cellOf(run, name), text)));
    this.draw();
    this.changed();
  }

  /** Unknown values last, equal ones by point. @returns {Run[]} */
  sorted() {
    const name = this.sortedBy, way = this.descending ? -1 : 1;
    /** @param {Cell} a @param {Cell} b */
    const order = (a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
    return [...this.passing].sort((a, b) => {
      const x = cellOf(a, name), y = cellOf(b, name);
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return way * order(x, y) || order(cellOf(a, 'point'), cellOf(b, 'point'));
    });
  }

  draw() {
    const columns = this.columns(), all = this.sorted(), shown = this.every ? all : all.slice(0, firstRows);
    byId('runs-head').querySelectorAll('th').forEach((th) => {
      const name = th.dataset.column;
      th.setAttribute('aria-sort', name !== this.sortedBy ? 'none' : this.descending ? 'descending' : 'ascending');
    });
    byId('runs-body').replaceChildren(...shown.map((run) => this.line(run, columns)));
    byId('runs-count').textContent = `${all.length} of ${runs.rows.length} rows` +
      (shown.length < all.length ? `, ${shown.length} of them shown` : '');
    byId('all-rows').hidden = shown.length === all.length;
    byId('no-filters').hidden = this.filters.size === 0;
  }

  /** @param {Run} run @param {RunColumn[]} columns */
  line(run, columns) {
    const line = make('tr', {tabindex: 0, 'aria-selected': run === this.chosen ? 'true' : 'false',
      'data-row': runs.rows.indexOf(run)});
    for (const {name} of columns) {
      const cell = cellOf(run, name);
      line.append(make('td', {'data-value': JSON.stringify(cell), ...alignment(name)}, cellText(name, cell)));
    }
    line.addEventListener('click', () => this.choose(run));
    line.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.choose(run);
    });
    return line;
  }

  /** @param {Run | null} run */
  choose(run) {
    this.chosen = run === this.chosen ? null : run;
    for (const line of byId('runs-body').children)
      line.setAttribute('aria-selected', this.chosen === runs.rows[Number(/** @type {HTMLElement} */ (line).dataset.row)] ? 'true' : 'false');
    this.changed();
  }
}
