// Opens the page of a file of runs and compares it with `boxcar table --json`. See run.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {chromium} from 'playwright-core';

const [, , folder, program] = process.argv;
const browser = await chromium.launch({executablePath: process.env.BOXCAR_BROWSER, args: ['--no-sandbox']});
const context = await browser.newContext({viewport: {width: 1280, height: 900}, offline: true, reducedMotion: 'reduce'});
const page = await context.newPage();
const faults = [];
page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
page.on('pageerror', (error) => faults.push(error.stack));
page.on('request', (request) => /^(file|data):/.test(request.url()) || faults.push('request of ' + request.url()));
await page.goto(`file://${folder}/runs.html`);
await page.waitForSelector('html[data-ready]');

/** Rows of `boxcar table --json`. */
const table = (...flags) => JSON.parse(execFileSync(program, ['table', `${folder}/runs.db`, '--json', ...flags])).rows;
const document_ = JSON.parse(await page.textContent('#document'));
const names = document_.columns.map((column) => column.name);
const asked = document_.columns.filter((column) => column.kind === 'asked').map((column) => column.name);
const all = table('--columns', ['key', ...names].join());

// The numbers inside are the table's, in its order and with all digits.
assert.deepEqual(document_.rows, all.map((row) => names.map((name) => row[name])));

/** What the table of the page shows, by column. */
const shown = () => page.$$eval('#runs-table', ([one]) => {
  const columns = [...one.querySelectorAll('thead th')].map((th) => th.dataset.column);
  return [...one.querySelectorAll('tbody tr')].map((line) => Object.fromEntries(
    [...line.children].map((td, i) => [columns[i], JSON.parse(td.dataset.value)])));
});
const same = (found, expected, what) => assert.deepEqual(found,
  expected.map((row) => Object.fromEntries(Object.keys(found[0] || {}).map((name) => [name, row[name]]))), what);
same(await shown(), all, 'all rows by point');
assert.equal(await page.textContent('#statuses'), `${all.length} rows: ` +
  [...new Set(all.map((row) => row.status))].map((one) => `${one} ${all.filter((row) => row.status === one).length}`).join(', '));

// The verdict: the best rows.
for (const [column, way] of [['step_time_s', 'asc'], ['mfu', 'desc'], ['tokens_per_s', 'desc'], ['peak_memory_bytes', 'asc']]) {
  const [best] = table('--where', 'fits', '--sort', `${column} ${way}`, '--limit', '1', '--columns', [column, ...asked].join());
  const tile = `#tiles [data-column=${column}] `;
  assert.equal(JSON.parse(await page.getAttribute(tile + '.value', 'data-value')), best[column], column);
}

// With their units, and what they are runs of.
const tileTexts = await page.$$eval('#tiles > div', (all) => all.map((one) => one.textContent));
for (const form of [/^least step time[\d.]+ (m|µ)?s/, /^most MFU[\d.]+ %/, /^most tokens per second[\d,.]+gpus/,
  /^least peak memory[\d.]+ [kMG]?B/])
  assert.ok(tileTexts.some((text) => form.test(text)), `${form} in ${tileTexts}`);
assert.match(await page.textContent('#job'), /runs of boxcar sweep: gpt on dgx-a100-80g; keys that differ: gpus/);
for (const [column, text] of [['model', 'gpt'], ['cluster', 'dgx-a100-80g'], ['gpus', '8']]) {
  const column_ = await page.$$eval('#runs-head th', (all, column) => all.findIndex((th) => th.dataset.column === column), column);
  assert.equal(await page.textContent(`#runs-body tr:first-child td:nth-child(${column_ + 1})`), text, column);
}

// Sorted by a column, and back.
await page.click('th[data-column=step_time_s] button');
same(await shown(), table('--sort', 'step_time_s', '--columns', names.join()), 'sorted');
assert.equal(await page.getAttribute('th[data-column=step_time_s]', 'aria-sort'), 'ascending');
await page.click('th[data-column=step_time_s] button');
same(await shown(), table('--sort', 'step_time_s desc', '--columns', names.join()), 'sorted the other way');
await page.click('th[data-column=point] button');

// Filters, as --where.
const filter = (column, text) => page.fill(`.filters input[data-column=${column}]`, text);
for (const [column, text, where] of [['tp', '4', 'tp = 4'], ['tp', '>= 4', 'tp >= 4'], ['tp', '2..4', 'tp between 2 and 4'],
  ['tp', '!= 4', 'tp <> 4'], ['bound_by', 'KERN', "bound_by like '%kern%'"], ['step_time_s', '< 40', 'step_time_s < 40'],
  ['status', 'not', "status like '%not%'"], ['tp', '3', 'tp = 3']]) {
  await filter(column, text);
  same(await shown(), table('--where', where, '--columns', names.join()), `${column} ${text}`);
  await filter(column, '');
}

// Fronts of pairs of columns, of all rows and of filtered ones.
const frontOf = async (x, y) => {
  await page.selectOption('#x-column', x);
  await page.selectOption('#y-column', y);
  const marks = await page.$$eval('path.run', (all) => all.map((one) => [Number(one.dataset.row), one.dataset.front]));
  return marks.filter(([, front]) => front === 'true').map(([row]) => row);
};
for (const [x, y] of [['step_time_s', 'peak_memory_bytes'], ['mfu', 'tokens_per_s'], ['gpus', 'tokens_per_s'],
  ['step_time_s', 'mfu'], ['exposed_comm_s', 'bubble_fraction']])
  for (const [column, text, where] of [['tp', '', '1'], ['tp', '>= 4', 'tp >= 4']]) {
    await filter(column, text);
    const front = table('--where', where, '--pareto', `${x},${y}`, '--columns', 'point').map((row) => row.point);
    assert.deepEqual((await frontOf(x, y)).map((row) => document_.rows[row][names.indexOf('point')]), front, `${x}, ${y} of ${where}`);
    assert.equal((await page.$$('#front tbody tr')).length, front.length);
    await filter(column, '');
  }
await page.selectOption('#x-column', 'tp');
assert.match(await page.textContent('#front'), /needs two columns/);
await page.selectOption('#x-column', 'step_time_s');
await page.selectOption('#y-column', 'peak_memory_bytes');

// Effects: from the fastest row, then from another one.
const effects = () => page.$$eval('#effects table', (all) => all.map((one) => ({axis: one.dataset.axis,
  rows: [...one.querySelectorAll('tbody tr')].map((line) => [...line.children].map((cell) => cell.textContent))})));
const expected = (base) => asked.map((axis) => ({axis, rows: all.filter((row) =>
  asked.every((name) => name === axis || row[name] === base[name]))})).filter((one) => one.rows.length > 1);
const checkEffects = async (base) => {
  const found = await effects();
  assert.deepEqual(found.map((one) => one.axis), expected(base).map((one) => one.axis));
  expected(base).forEach(({axis, rows}, i) => rows.forEach((row, r) => {
    const [value, , change] = found[i].rows[r];
    assert.equal(Number(value), row[axis]);
    if (row !== base && row.step_time_s !== null)
      assert.ok(Math.abs(parseFloat(change.replace('−', '-')) - 100 * (row.step_time_s / base.step_time_s - 1)) <= 0.0501, change);
  }));
};
const fastest = all.filter((row) => row.step_time_s !== null).reduce((a, b) => (b.step_time_s < a.step_time_s ? b : a));
await checkEffects(fastest);
const other = all.findIndex((row) => row.step_time_s !== null && row !== fastest);
await page.focus(`#runs-body tr[data-row="${other}"]`);
await page.keyboard.press('Enter');
assert.equal(await page.getAttribute(`#runs-body tr[data-row="${other}"]`, 'aria-selected'), 'true');
await checkEffects(all[other]);
await page.keyboard.press('Enter');

// All columns, both themes, and a print.
await page.check('#all-columns');
same(await shown(), all, 'all columns');
assert.equal((await page.$$('#runs-head th')).length, names.length);
await page.uncheck('#all-columns');
const grounds = [];
for (const theme of ['light', 'dark']) {
  await page.check(`input[value=${theme}]`);
  grounds.push(await page.$eval('body', (body) => getComputedStyle(body).backgroundColor));
  await page.screenshot({path: `${folder}/runs-${theme}.png`, fullPage: true});
}
assert.notEqual(grounds[0], grounds[1]);
assert.ok((await page.pdf({path: `${folder}/runs.pdf`, format: 'A4'})).length > 10000);
assert.deepEqual(faults, []);
console.log(`  runs: ${all.length} rows, drawn after ${await page.$eval('html', (html) => html.dataset.ready)} ms`);
await browser.close();
