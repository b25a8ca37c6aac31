// The first screen: what was planned, whether it fits, how fast it is, and all numbers below.

/**
 * @typedef {{name: string, value: string, unit?: string, detail: string, alert?: boolean, picture?: Element}} Tile
 */

/** @param {string} name */
const verdictLine = (name) => (report.verdict.find((line) => line.name === name) || {text: ''}).text;

/** A bar from 0 to `most`, in a frame. @param {number} value @param {number} most @param {string} fill */
function bar(value, most, fill = '#0072b2') {
  const width = 140, height = 12;
  const x = linear([0, most], [0, width]).clamp(true);
  return make('svg:svg', {width, height, 'aria-hidden': 'true'},
    make('svg:rect', {class: 'frame', x: 0.5, y: 0.5, width: width - 1, height: height - 1}),
    make('svg:rect', {width: most > 0 ? Math.max(1, x(value)) : 0, height, fill}));
}

/** The step in the range that published runs leave it. @param {number} step @param {[number, number]} range */
function rangePicture(step, [least, most]) {
  const width = 140, height = 12;
  const x = linear([0, most], [1, width - 1]), y = height / 2;
  return make('svg:svg', {width, height, 'aria-hidden': 'true'}, make('svg:path', {class: 'axis', d: `M1,${y} H${width}`}),
    make('svg:path', {class: 'interval', d: intervalPath(x(least), x(most), y)}),
    make('svg:circle', {class: 'mark', cx: x(step), cy: y, r: 4}));
}

/** @param {number} from @param {number} to @param {number} y */
const intervalPath = (from, to, y) => `M${from},${y} H${to} M${from},${y - 5} v10 M${to},${y - 5} v10`;

const threeText = d3.format(',.3~r');
/** "4.73M", "15T" @param {number} value */
const largeText = (value) => threeDigits(value).replace('G', 'B');
/** @param {number} dollars */
const dollarText = (dollars) => '$' + largeText(dollars);

/** @returns {Tile[]} */
function tiles() {
  const r = report.result, limit = report.memory.limit_bytes;
  const fullest = Math.max(...report.stages.map((stage) => stage.peak_memory_bytes));
  const used = report.errors.rows.find((row) => row.used);
  const [bound, ...others] = verdictLine('bound by').split(/, (?=[\d.]+ % of the step)/);
  /** @type {Tile[]} */
  const all = [
    {name: 'Memory', value: r.fits ? 'fits' : 'does not fit', alert: !r.fits, detail: verdictLine('fits'),
      picture: bar(fullest, limit, r.fits ? undefined : '#d55e00')},
    {name: 'Step', value: secondsText(r.step_time_s),
      detail: used ? `${used.step_time_range_s.map(secondsText).join(' to ')} by published runs` : '',
      picture: used && rangePicture(r.step_time_s, used.step_time_range_s)},
    r.tokens_per_s > 0 ?
      {name: 'Throughput', value: withCommas(r.tokens_per_s), unit: 'tokens/s',
        detail: `${withCommas(r.tokens_per_s / report.gpus)} on each GPU; ${withCommas(r.samples_per_s)} samples/s`} :
      {name: 'Throughput', value: withCommas(r.samples_per_s), unit: 'samples/s', detail: ''},
    {name: 'MFU', value: percent(r.mfu),
      detail: `${tenth(r.model_tflops_per_gpu)} TFLOP/s of the model on each GPU`, picture: bar(r.mfu, 1)},
    {name: 'Bound by', value: bound, detail: others.join(', ')},
  ];
  return all.concat(wholeRun());
}

/**
 * Of the whole training run: what the document of `boxcar campaign` says of its one row.
 * @returns {Tile[]}
 */
function wholeRun() {
  if (!report.run) return [];
  const {watts_per_gpu: watts, pue, given_mtbf_s: mtbf, given_mtbf_gpus: mtbfGpus} = report.run;
  const unit = report.run.tokens ? 'tokens' : 'samples', amount = report.run.tokens || report.run.samples || 0;
  const row = report.run.rows[0], {low, estimate, high} = row;
  /** @type {(text: (value: number) => string, low?: number, high?: number) => string} */
  const rangeText = (text, low = 0, high = 0) => `${text(low)} to ${text(high)} by published runs`;
  /** @type {Tile[]} */
  const all = [{name: `Training on ${largeText(amount)} ${unit}`, value: threeText(estimate.days), unit: 'days',
    detail: `${rangeText(threeText, low.days, high.days)}; ${largeText(estimate.gpu_hours)} GPU hours, ${withCommas(row.steps)} steps`}];
  if (estimate.goodput !== undefined && estimate.lost_s !== undefined) {
    const lost = threeText(estimate.lost_s / 86400), failures = threeText(estimate.failures || 0);
    all.push({name: 'Goodput', value: percent(estimate.goodput), picture: bar(estimate.goodput, 1),
      detail: `${lost} days of them lost: ${failures} failures, one in ${threeText((mtbf || 0) / 3600)} h on ` +
        `${d3.format(',')(mtbfGpus || 0)} GPUs; a checkpoint every ${d3.format(',')(estimate.checkpoint_interval_steps || 0)} steps`});
  } else {
    all[0].detail += '; no failures and checkpoints are counted';
  }
  if (estimate.dollars !== undefined)
    all.push({name: 'Cost', value: dollarText(estimate.dollars),
      detail: `${rangeText(dollarText, low.dollars, high.dollars)}; ${dollarText(row.dollars_per_gpu_hour || 0)} per GPU and hour`});
  if (estimate.energy_mwh !== undefined)
    all.push({name: 'Energy', value: threeText(estimate.energy_mwh), unit: 'MWh',
      detail: `${rangeText(threeText, low.energy_mwh, high.energy_mwh)}; ${withCommas(watts || 0)} W for each GPU, PUE ${pue}`});
  return all;
}

/** "llama3-70b", else the family; empty for a plan without a job. */
const modelName = () => report.model || report.result.configuration['model.family'] || '';

// "llama3-70b: 80 layers, hidden 8192, ..., bf16; dp 8, tp 4, pp 16"; empty for a plan without a job.
function modelText() {
  const keys = report.result.configuration;
  /** @type {(path: string, unit?: string) => string[]} */
  const value = (path, unit) => keys[path] ? [unit ? `${keys[path]} ${unit}` : `${path.split('.')[1]} ${keys[path]}`] : [];
  if (!keys['model.family']) return '';
  const sizes = [...value('model.layers', 'layers'), ...value('model.hidden'), ...value('model.heads', 'heads'),
    ...value('model.seq'), ...value('train.global_batch').map((text) => text.replace('_', ' ')), keys['train.precision']];
  const degrees = ['dp', 'tp', 'pp', 'context_parallel', 'ep', 'zero']
    .filter((name) => !['0', '1'].includes(keys['parallel.' + name] || '1'))
    .map((name) => `${name} ${keys['parallel.' + name]}`);
  return `${modelName()}: ${sizes.join(', ')}` + (degrees.length > 0 ? `; ${degrees.join(', ')}` : '');
}

function showVerdict() {
  document.title = `${report.model ? report.model + ', ' : ''}${report.plan}: ${secondsText(report.result.step_time_s)} a step`;
  byId('job').textContent =
    `${d3.format(',')(report.gpus)} GPUs, cluster ${report.cluster}, device ${report.device}, framework ${report.framework}`;
  byId('job').after(make('p', {id: 'model'}, modelText()));
  d3.select('#tiles').selectAll('div').data(tiles()).enter().append('div').classed('alert', (tile) => !!tile.alert)
    .each(function (tile) {
      const value = make('dd', {class: 'value'}, tile.value);
      if (tile.unit) value.append(make('small', {}, ' ' + tile.unit));
      this.append(make('dt', {}, tile.name), value);
      if (tile.picture) this.append(make('dd', {}, tile.picture));
      this.append(make('dd', {class: 'detail'}, tile.detail));
    });
  const lines = byId('verdict-lines');
  for (const line of report.verdict) lines.append(make('dt', {}, line.name), make('dd', {}, line.text));
  showNumbers();
}

function showNumbers() {
  const r = report.result;
  const rows = [
    ...modelName() ? [['model', modelName()]] : [],
    ['step time', secondsText(r.step_time_s) + ', the first step ' + secondsText(r.first_step_time_s)],
    ['throughput', withCommas(r.samples_per_s) + ' samples/s' +
      (r.tokens_per_s > 0 ? ', ' + withCommas(r.tokens_per_s) + ' tokens/s' : '')],
    ['model compute', tenth(r.model_tflops_per_gpu) + ' TFLOP/s per GPU, MFU ' + percent(r.mfu)],
    ['hardware compute', tenth(r.hardware_tflops_per_gpu) + ' TFLOP/s per GPU, recomputation included'],
    ['idle', percent(r.bubble_fraction) + " of the compute queue's time, mean over stages"],
    ['exposed communication', secondsText(r.exposed_comm_s) + ' on the worst stage'],
  ];
  for (const name in r.comm_bytes) rows.push([name, bytesText(r.comm_bytes[name]) + ' per step over all devices']);
  byId('numbers').append(table(['number', 'value'], rows));
}
