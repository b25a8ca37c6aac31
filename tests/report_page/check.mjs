// Opens pages of `boxcar report` and compares what they show with the document inside. See run.
import assert from 'node:assert/strict';
import {chromium} from 'playwright-core';
import {checkLooks} from './looks.mjs';

const [folder, accept] = process.argv.slice(2);
const browser = await chromium.launch({executablePath: process.env.BOXCAR_BROWSER, args: ['--no-sandbox']});

const units = {B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15, s: 1, ms: 1e-3, µs: 1e-6, ns: 1e-9, k: 1e3, M: 1e6, '%': 0.01};

/** "26.3 GB of ..." -> 26.3e9; "472,900 tokens/s" -> 472900 */
function numberIn(text) {
  const [, number, unit] = /^([-+−]?[\d.,]+) ?([a-zA-Zµ%]+)?/.exec(text.trim()) ?? [];
  return Number(number.replace('−', '-').replaceAll(',', '')) * (unit in units ? units[unit] : 1);
}

/** What is written with `digits` digits is the number. */
function same(text, number, what, digits = 3) {
  const shown = numberIn(text);
  assert.ok(Math.abs(shown - number) <= 0.51 * Math.pow(10, 1 - digits) * Math.abs(number) + 1e-12,
    `${what}: the page has ${text}, the document ${number}`);
}

/** The percentage, to a tenth. */
function samePercent(text, share, what) {
  assert.ok(Math.abs(numberIn(text) - share) <= 0.00051, `${what}: the page has ${text}, the document ${share}`);
}

async function open(name, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, offline: true,
    reducedMotion: 'reduce', ...options});
  const page = await context.newPage();
  const faults = [];
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  page.on('pageerror', (error) => faults.push(error.stack));
  page.on('request', (request) => /^(file|data):/.test(request.url()) || faults.push('request of ' + request.url()));
  await page.goto(`file://${folder}/${name}`);
  await page.waitForSelector('html[data-ready]');
  const report = JSON.parse(await page.textContent('#document'));
  return {page, report, faults, close: () => context.close()};
}

const cells = (page, place) => page.$$eval(`${place} tbody tr`, (rows) => rows.map((row) =>
  [...row.children].map((cell) => cell.textContent)));

/** Labels of the configuration that the page has in a section of their own. */
const listed = (key) => key.startsWith('search.runner_up.') || key.startsWith('search.simulated.');

function checkWholeRun(tiles, run) {
  const {low, estimate, high} = run.rows[0];
  const tile = (begin) => Object.entries(tiles).find(([name]) => name.startsWith(begin))?.[1];
  const range = (text, from, to, what) => text.split(' by ')[0].split(' to ')
    .forEach((one, i) => same(one.replace('$', ''), [from, to][i], `range of ${what}`));
  const [days, hours] = tile('Training on');
  same(days, estimate.days, 'days');
  range(hours, low.days, high.days, 'days');
  same(hours.split('; ')[1], estimate.gpu_hours, 'GPU hours');
  const goodput = tile('Goodput'), cost = tile('Cost'), energy = tile('Energy');
  assert.equal(!goodput, run.given_mtbf_s === undefined);
  if (goodput) {
    samePercent(goodput[0], estimate.goodput, 'goodput');
    same(goodput.at(-1), estimate.lost_s / 86400, 'days lost');
    same(goodput.at(-1).split('every ')[1], estimate.checkpoint_interval_steps, 'interval', 12);
  }
  assert.equal(!cost, estimate.dollars === undefined);
  if (cost) {
    same(cost[0].slice(1), estimate.dollars, 'dollars');
    range(cost[1], low.dollars, high.dollars, 'dollars');
  }
  assert.equal(!energy, run.watts_per_gpu === undefined);
  if (energy) {
    same(energy[0].replace(' MWh', ''), estimate.energy_mwh, 'energy');
    range(energy[1], low.energy_mwh, high.energy_mwh, 'energy');
  }
}

async function checkNumbers({page, report}) {
  const r = report.result;
  assert.deepEqual(await page.$$eval('#verdict-lines dt', (all) => all.map((one) => one.textContent)),
    report.verdict.map((line) => line.name));
  assert.deepEqual(await page.$$eval('#verdict-lines dd', (all) => all.map((one) => one.textContent)),
    report.verdict.map((line) => line.text));
  const tiles = Object.fromEntries(await page.$$eval('#tiles > div', (all) => all.map((one) =>
    [one.querySelector('dt').textContent, [...one.querySelectorAll('dd')].map((dd) => dd.textContent)])));
  assert.equal(tiles.Memory[0], r.fits ? 'fits' : 'does not fit');
  const given = report.result.configuration, model = await page.textContent('#model');
  for (const path of ['model.layers', 'model.hidden', 'model.seq', 'train.global_batch', 'train.precision', 'parallel.dp'])
    assert.ok(model.includes(given[path]), `${path} in ${model}`);
  const name = report.model || given['model.family'];
  assert.ok(model.startsWith(`${name}: `), model);
  assert.equal(await page.textContent('h1'), report.model ? `${report.model}: ${report.plan}` : report.plan);
  assert.equal(tiles.Memory.at(-1), report.verdict.find((line) => line.name === 'fits').text);
  same(tiles.Step[0], r.step_time_s, 'step', 4);
  const bar = report.errors.rows.find((row) => row.used);
  if (bar) tiles.Step.at(-1).split(' to ').forEach((text, i) => same(text, bar.step_time_range_s[i], 'range of the step', 4));
  same(tiles.Throughput[0], r.tokens_per_s, 'tokens', 4);
  samePercent(tiles.MFU[0], r.mfu, 'MFU');
  assert.ok(report.verdict.find((line) => line.name === 'bound by').text.startsWith(tiles['Bound by'][0]));
  if (report.run) checkWholeRun(tiles, report.run);
  const numbers = Object.fromEntries(await cells(page, '#numbers'));
  assert.equal(numbers.model, name);
  same(numbers['step time'], r.step_time_s, 'step', 4);
  same(numbers['step time'].split('first step ')[1], r.first_step_time_s, 'first step', 4);
  same(numbers.throughput, r.samples_per_s, 'samples', 4);
  same(numbers.throughput.split('samples/s, ')[1], r.tokens_per_s, 'tokens', 4);
  samePercent(numbers.idle, r.bubble_fraction, 'idle');
  samePercent(numbers['model compute'].split('MFU ')[1], r.mfu, 'MFU');
  same(numbers['exposed communication'], r.exposed_comm_s, 'exposed', 4);
  for (const name in r.comm_bytes) same(numbers[name], r.comm_bytes[name], name);

  const stages = await cells(page, '#memory-table');
  assert.equal(stages.length, report.stages.length);
  report.stages.forEach((stage, i) => {
    assert.equal(stages[i][0], stage.name);
    same(stages[i][5], stage.peak_memory_bytes, stage.name + ' peak');
    samePercent(stages[i][6], stage.peak_memory_bytes / report.memory.limit_bytes, stage.name + ' of limit');
    ['parameters', 'gradients', 'optimizer', 'activations', 'workspace'].forEach((kind, k) =>
      same(stages[i][7 + k], stage.memory_bytes[kind], stage.name + ' ' + kind));
    same(stages[i][12], stage.busy_s, stage.name + ' busy', 4);
  });
  assert.equal((await page.$$('#memory-charts figure')).length, report.memory.stages.length);

  for (const stage of new Set(report.links.map((link) => link.stage))) {
    await page.selectOption('#link-stage', stage);
    const rows = await cells(page, '#links');
    report.links.filter((link) => link.stage === stage).forEach((link, i) => {
      assert.equal(rows[i][0], link.link);
      assert.equal(numberIn(rows[i][4]), link.acts);
      same(rows[i][5], link.bytes, 'bytes over ' + link.link);
      same(rows[i][6], link.alone_s, 'alone over ' + link.link, 4);
      same(rows[i][7], link.simulated_s, 'simulated over ' + link.link, 4);
    });
  }
  const bars = await page.$$eval('#link-chart rect.moved', (all) => all.map((one) => Number(one.getAttribute('width'))));
  assert.equal(bars.length, report.links.length);
  const seconds = bars.reduce((sum, width) => sum + width, 0) / report.links.reduce((sum, link) => sum + link.simulated_s, 0);
  report.links.forEach((link, i) => near(bars[i], link.simulated_s * seconds, 1e-6, `bar of ${link.what} over ${link.link}`));
  const moved = await cells(page, '#communications');
  report.communications.forEach((c, i) => {
    same(moved[i][0], c.s, c.name, 4);
    assert.equal(moved[i][5], c.name);
    assert.equal(moved[i][6], c.why);
  });

  const figures = await page.$$eval('#layout-charts figure', (all) => all.map((one) => ({
    name: one.querySelector('code').textContent, blocks: one.querySelectorAll('rect.block').length})));
  assert.deepEqual(figures.map((one) => one.name), report.layouts.tensors.map((tensor) => tensor.name));
  report.layouts.tensors.forEach((tensor, i) => {
    if (tensor.shape.length <= 2) assert.equal(figures[i].blocks, tensor.ranges.length, tensor.name);
  });

  const candidates = await cells(page, '#candidate-table');
  assert.equal(candidates.length, report.candidates.length);
  report.candidates.forEach((c, i) => {
    same(candidates[i][1], c.step_time_s, 'step of a candidate', 4);
    if (!c.this_plan) samePercent(candidates[i][2], c.step_time_s / r.step_time_s - 1, 'a candidate against the plan');
    same(candidates[i][3], c.peak_memory_bytes, 'peak of a candidate');
    assert.equal(candidates[i][5], c.front ? 'yes' : '');
    assert.ok(candidates[i][6].startsWith(c.flags));
    const beaten = report.candidates.some((other) => other.step_time_s <= c.step_time_s &&
      other.peak_memory_bytes <= c.peak_memory_bytes &&
      (other.step_time_s < c.step_time_s || other.peak_memory_bytes < c.peak_memory_bytes));
    assert.equal(c.front, !beaten, `${c.flags} is on the front unless another beats it`);
  });
  const points = await page.$$eval('g.candidate', (all) => all.map((one) => one.classList.contains('on-front')));
  assert.deepEqual(points, report.candidates.map((c) => c.front));
  if (report.candidates.length > 0) {
    const self = report.candidates.find((c) => c.this_plan);
    near(self.step_time_s, r.step_time_s, 1e-9, 'the step that the search simulated');
  }

  const changed = Object.fromEntries((await cells(page, '#sensitivity-table')).map((row) => [row[0], row]));
  for (const row of report.sensitivity ?? []) {
    if (row.half_step_s !== null) same(changed[row.name][2], row.half_step_s, row.name + ' halved', 4);
    if (row.double_step_s !== null) same(changed[row.name][3], row.double_step_s, row.name + ' doubled', 4);
  }
  const errors = await cells(page, '#error-table');
  report.errors.rows.forEach((row, i) => {
    assert.deepEqual([errors[i][0], errors[i][1]], [row.framework, row.device]);
    samePercent(errors[i][4], row.share, row.framework);
    same(errors[i][5], row.step_time_range_s[0], row.framework, 4);
    same(errors[i][6], row.step_time_range_s[1], row.framework, 4);
  });
  const keys = await cells(page, '#configuration-tables');
  assert.equal(keys.length, Object.keys(r.configuration).filter((key) => !listed(key)).length);
  for (const [path, value] of Object.entries(r.configuration))
    if (!listed(path))
      assert.ok(keys.some(([key, text]) => key === path.slice(path.indexOf('.') + 1) && text === value), path);
}

/** The acts of the document, decoded here once more: by class and queue, by start. */
function decode({classes, programs, runs, shapes, names}) {
  const rows = new Map();
  for (let r = 0; r < runs.class.length; ++r) {
    const {actors} = programs[classes[runs.class[r]].program];
    const members = actors.name.map((_, a) => a).filter((a) =>
      actors.queue[a] === runs.queue[r] && actors.phase[a] === runs.phase[r]);
    const key = `${runs.class[r]} ${runs.queue[r]}`;
    if (!rows.has(key)) rows.set(key, []);
    members.forEach((a, i) => {
      const at = shapes.first[runs.shape[r]] + i, start = runs.begin[r] + shapes.start[at];
      const name = names[actors.name[a]];
      rows.get(key).push({start, end: start + shapes.duration[at], actor: a, bytes: actors.bytes[a],
        name: actors.layer[a] < 0 ? name : name.replace('h*', 'h' + actors.layer[a])});
    });
  }
  for (const acts of rows.values()) acts.sort((a, b) => a.start - b.start);
  return rows;
}

function checkActs({report}) {
  const {classes, tick_s: tick} = report.timeline;
  const rows = decode(report.timeline);
  let acts = 0;
  for (const [key, list] of rows) {
    acts += list.length;
    const [cls, queue] = key.split(' ').map(Number);
    const busy = list.reduce((sum, act) => sum + (act.end - act.start) * tick, 0);
    const simulated = classes[cls].queue_busy_s[queue];
    assert.ok(Math.abs(busy - simulated) <= 1e-3 * simulated + list.length * tick,
      `queue ${key}: acts of ${busy} s, simulated ${simulated} s`);
  }
  return {rows, acts};
}

const range = (page) => page.$eval('#timeline-view', (view) => ({begin: Number(view.dataset.begin),
  end: Number(view.dataset.end), span: Number(view.dataset.end) - Number(view.dataset.begin)}));
const near = (a, b, part, what) => assert.ok(Math.abs(a - b) <= part * Math.max(Math.abs(a), Math.abs(b)), `${what}: ${a}, ${b}`);

const sameRange = (a, b, what) => ['begin', 'end'].forEach((side) =>
  assert.ok(Math.abs(a[side] - b[side]) <= 1e-9 * b.span, `${what}: ${side} ${a[side]}, ${b[side]}`));

/** Does something and waits until the timeline was drawn anew. */
async function drawn(page, act) {
  await act();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function checkTimeline({page, report}, rows) {
  const whole = await range(page);
  const press = (key) => drawn(page, () => page.keyboard.press(key));
  await page.focus('#timeline-view');
  await press('+');
  near((await range(page)).span, whole.span / 1.5, 1e-6, '+ zooms in');
  const before = await range(page);
  await press('ArrowRight');
  near((await range(page)).begin, before.begin + before.span / 10, 1e-6, 'right moves');
  await press('ArrowLeft');
  near((await range(page)).begin, before.begin, 1e-6, 'left moves back');
  await press('-');
  near((await range(page)).span, whole.span, 1e-6, '- zooms out');
  await press('+');
  await press('0');
  sameRange(await range(page), whole, '0 shows the whole step');
  await drawn(page, () => page.click('[data-do=in]'));
  near((await range(page)).span, whole.span / 1.5, 1e-6, 'the button zooms in');
  await drawn(page, () => page.click('[data-do=right]'));
  assert.ok((await range(page)).begin > before.begin, 'the button moves');
  await drawn(page, () => page.click('[data-do=whole]'));
  sameRange(await range(page), whole, 'the button shows the whole step');

  // By keys: the first row, an act, the next one. Its fields are the document's.
  await page.focus('#timeline-view');
  await press('ArrowDown');
  await press('.');
  const fields = () => page.$$eval('#timeline-act dt', (all) => Object.fromEntries(all.map((one) =>
    [one.textContent, one.nextElementSibling.textContent])));
  const first = await fields();
  const [key, acts] = [...rows].sort(([a], [b]) => a.localeCompare(b, 'en', {numeric: true}))[0];
  const here = acts.filter((act) => act.name === first.act);
  assert.ok(here.length > 0, `${first.act} is of queue ${key}`);
  same(first.bytes, here[0].bytes, 'bytes of ' + first.act);
  assert.ok(here.some((act) => Math.abs(numberIn(first.time) - (act.end - act.start) * report.timeline.tick_s) <=
    1e-3 * numberIn(first.time) + 1e-12), 'time of ' + first.act);
  assert.ok(first['waits for'].length > 0);
  await press('.');
  assert.notDeepEqual(await fields(), first, 'full stop chooses the next act');
  await press(',');
  assert.deepEqual(await fields(), first, 'comma chooses the act before');

  // By mouse: zoomed around the chosen act, the pointer finds it.
  await drawn(page, () => page.evaluate(() => document.querySelector('#timeline-view').scrollTo(0, 0)));
  for (let i = 0; i < 40; ++i) await press('+');
  const now = await range(page);
  const act = here.find((one) => one.end > now.begin && one.start < now.end);
  await drawn(page, () => page.$eval('#timeline-view', (view) => view.scrollIntoView()));
  const box = await (await page.$('#timeline-view')).boundingBox();
  assert.ok(act, 'the chosen act stays in view');
  const gutter = Math.min(170, (box.width - 2) * 0.25);
  const middle = (Math.max(act.start, now.begin) + Math.min(act.end, now.end)) / 2;
  const x = box.x + 1 + gutter + ((middle - now.begin) / now.span) * (box.width - 2 - gutter);
  const titles = 22 + 22 + 9;  // axis, title of the class, half a row
  await page.mouse.move(x, box.y + titles);
  await page.mouse.move(x + 1, box.y + titles);
  await page.waitForSelector('#timeline-tip:not([hidden])', {timeout: 2000});
  const tip = await page.textContent('#timeline-tip');
  assert.ok(tip.includes(act.name) && tip.includes('waits for') && tip.includes('bytes'), tip);
  await drawn(page, () => page.mouse.click(x, box.y + titles));
  assert.equal((await fields()).act, act.name, 'a click chooses the act');
  const zoomed = await range(page);
  await page.keyboard.down('Control');
  await drawn(page, () => page.mouse.wheel(0, 100));
  await page.keyboard.up('Control');
  assert.ok((await range(page)).span > zoomed.span, 'Ctrl and wheel zoom out');
  const dragged = await range(page);
  await page.mouse.down();
  await page.mouse.move(x + 101, box.y + titles, {steps: 4});
  assert.ok(await page.$eval('#timeline-tip', (tip) => tip.hidden), 'no tip while the pointer drags');
  await drawn(page, () => page.mouse.up());
  near((await range(page)).begin, dragged.begin - (100 / (box.width - 2 - gutter)) * dragged.span, 1e-3, 'dragging moves');
  near((await range(page)).span, dragged.span, 1e-6, 'dragging leaves the zoom');
  await press('0');
  await drawn(page, () => page.mouse.dblclick(x, box.y + titles));
  near((await range(page)).span, whole.span / 2, 1e-6, 'a double click zooms in');
  const still = await range(page);
  await drawn(page, () => page.mouse.wheel(0, 10));
  sameRange(await range(page), still, 'the wheel alone scrolls the page');
  await page.mouse.move(5, 5);
  await press('0');
  await press('Escape');
}

async function checkFocus({page}) {
  await page.focus('.skip');
  const order = [];
  for (let i = 0; i < 24; ++i) {
    await page.keyboard.press('Tab');
    order.push(await page.evaluate(() => {
      const one = document.activeElement;
      const look = getComputedStyle(one);
      return {what: one.id || one.textContent.trim().slice(0, 30) || one.getAttribute('name'),
        outline: look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 1};
    }));
    if (order[i].what === 'timeline-view') break;
  }
  const names = order.map((one) => one.what);
  assert.ok(names.includes('Verdict') && names.includes('Configuration') && names.includes('zoom in'), names.join());
  assert.equal(names.at(-1), 'timeline-view', 'the timeline is reached by Tab: ' + names.join());
  for (const one of order) assert.ok(one.outline, `${one.what} shows that it has the focus`);
}

async function checkThemes({page}) {
  const ground = () => page.$eval('body', (body) => getComputedStyle(body).backgroundColor);
  const canvas = () => page.$eval('#timeline-canvas', (c) => [...c.getContext('2d').getImageData(2, 2, 1, 1).data].join());
  const seen = {};
  for (const theme of ['light', 'dark']) {
    await drawn(page, () => page.check(`input[value=${theme}]`));
    seen[theme] = {ground: await ground(), canvas: await canvas()};
  }
  assert.notDeepEqual(seen.light, seen.dark);
  assert.notEqual(seen.light.canvas, seen.dark.canvas);
  await drawn(page, () => page.check('input[value=auto]'));
  assert.equal(await ground(), seen.light.ground);
  await page.emulateMedia({colorScheme: 'dark'});
  assert.equal(await ground(), seen.dark.ground, 'the system decides');
  await page.emulateMedia({colorScheme: 'light'});
}

async function checkPrint({page}, name) {
  const pdf = await page.pdf({path: `${folder}/${name}.pdf`, preferCSSPageSize: true});
  assert.ok(pdf.length > 10000);
  await page.emulateMedia({media: 'print'});
  await page.setViewportSize({width: 1030, height: 700});  // A4, across
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), 'the page fits paper');
  assert.equal(await page.$eval('nav', (nav) => getComputedStyle(nav).display), 'none');
  await page.emulateMedia({media: 'screen'});
}

/** Nothing is cut off or runs over its frame, on a screen and on a phone. */
async function checkRoom({page}) {
  for (const width of [1280, 420]) {
    await page.setViewportSize({width, height: 900});
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `the page fits ${width} px`);
    const cut = await page.$$eval('main svg text', (all) => all.filter((text) => {
      const own = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
      return own.left < frame.left - 1 || own.right > frame.right + 1 || own.top < frame.top - 2 || own.bottom > frame.bottom + 2;
    }).map((text) => text.textContent));
    assert.deepEqual(cut, [], `texts that are cut off at ${width} px`);
  }
  await page.setViewportSize({width: 1280, height: 900});
}

for (const name of ['small', 'gpt3']) {
  const opened = await open(name + '.html');
  const {page, report, faults} = opened;
  await checkNumbers(opened);
  const {rows, acts} = checkActs(opened);
  await checkTimeline(opened, rows);
  await checkFocus(opened);
  await checkRoom(opened);
  await checkThemes(opened);
  await checkPrint(opened, name);
  // From the numbers as text to the drawing, and a drawing anew.
  const ms = await page.$eval('#timeline-view', (view) => Number(view.dataset.drawMs));
  const drawnAfter = await page.$eval('html', (html) => Number(html.dataset.timeline));
  assert.ok(ms < 1000 && drawnAfter < 10000, `the timeline is drawn after ${drawnAfter} ms, anew in ${ms} ms`);
  assert.deepEqual(faults, []);
  const ready = await page.$eval('html', (html) => html.dataset.ready);
  console.log(`  ${name}: ${acts} acts, the timeline drawn after ${drawnAfter} ms, all after ${ready} ms, a drawing takes ${ms.toFixed(0)} ms; ` +
    `${report.layouts.tensors.length} tensors, ${report.candidates.length} candidates`);
  await opened.close();
}
await checkLooks(browser, folder, accept === 'accept');
await browser.close();
