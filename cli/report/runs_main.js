// The verdict on all runs, and the parts of the page in their order.

function showRunsVerdict() {
  /** @type {Map<string, number>} */
  const statuses = new Map();
  for (const run of runs.rows) {
    const status = String(cellOf(run, 'status'));
    statuses.set(status, (statuses.get(status) || 0) + 1);
  }
  byId('statuses').textContent = `${runs.rows.length} rows` + (runs.where ? ` for which ${runs.where}` : '') + ': ' +
    [...statuses].map(([status, count]) => `${status} ${count}`).join(', ');
  for (const name of ['step_time_s', 'tokens_per_s', 'samples_per_s', 'mfu', 'peak_memory_bytes', 'dollars_per_step']) {
    const column = measures.find((one) => one.name === name);
    const found = column && best(column, runs.rows.filter((run) => cellOf(run, 'fits') === true));
    if (!column || !found || (name === 'samples_per_s' && measures.some((one) => one.name === 'tokens_per_s'))) continue;
    byId('tiles').append(make('div', {'data-column': name}, make('dt', {}, `${column.better === 'more' ? 'most' : 'least'} ${title(name)}`),
      make('dd', {class: 'value', 'data-value': JSON.stringify(cellOf(found, name))}, cellText(name, cellOf(found, name))),
      make('dd', {class: 'detail'}, askedText(found))));
  }
}

const of = valuesText('model'), on = valuesText('cluster');
byId('job').textContent = `${runs.rows.length} runs of boxcar sweep${of && ': ' + of}${on && ' on ' + on}; keys that differ: ${asked.map((column) => column.name).join(', ') || 'none'}`;
showRunsVerdict();
function drawRest() {
  if (numeric.size > 0) drawTradeOff(runsTable.passing, runsTable.chosen, (run) => runsTable.choose(run));
  if (measures.length > 0) drawEffects(runsTable.passing, runsTable.chosen);
}
const names = measures.map((column) => column.name);
fillSelect('x-column', [...numeric], 'step_time_s', drawRest);
fillSelect('y-column', [...numeric], 'peak_memory_bytes', drawRest);
fillSelect('mark-column', ['', ...asked.map((column) => column.name)], asked[0] ? asked[0].name : '', drawRest);
fillSelect('effect-column', names, 'step_time_s', drawRest);
const runsTable = new RunsTable(drawRest);
runsTable.start();
listenToTheme();
document.documentElement.dataset.ready = (performance.now() - began).toFixed(0);  // ms, all drawn
