// Pictures of a page compared with those in looks/: light, dark, on a phone, on paper. The document is
// looks/document.json, so that no number of the simulation decides, and each small square is compared by its
// mean colour, so that a browser's smoothing of letters does not either.
import assert from 'node:assert/strict';
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

const kept = fileURLToPath(new URL('looks/', import.meta.url));
const looks = {
  light: {viewport: {width: 1200, height: 900}},
  dark: {viewport: {width: 1200, height: 900}, colorScheme: 'dark'},
  phone: {viewport: {width: 420, height: 800}},
  paper: {viewport: {width: 1030, height: 700}, media: 'print'},  // A4, across
};
const square = 4;           // pixels of a picture, which has one for each 2 of the page; one pixel of what is kept
const band = 4;             // rows of squares that are judged together
const mostDifference = 24;  // of a square's mean colour, of 255
const mostSquares = 0.015;  // of a band, that differ more
const font = '*, svg text { font-family: "DejaVu Sans" !important; }';  // whatever a machine's own is

/** The picture with a pixel for each square, as a PNG; runs in the browser. */
async function smaller([url, square]) {
  const image = new Image();
  image.src = url;
  await image.decode();
  const width = Math.floor(image.width / square), height = Math.floor(image.height / square);
  const canvas = document.createElement('canvas');
  Object.assign(canvas, {width, height});
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, width * square, height * square, 0, 0, width, height);
  return canvas.toDataURL('image/png');
}

/** By band the share of pixels that differ; runs in the browser. */
async function differences([before, after, band, mostDifference]) {
  const pixels = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await pixels(before), await pixels(after)], shares = [];
  if (a.width !== b.width || Math.abs(a.height - b.height) > 2)
    return {sizes: `${a.width} x ${a.height}, now ${b.width} x ${b.height}`, shares};
  for (let top = 0; top < Math.min(a.height, b.height); top += band) {
    let differ = 0;
    const end = Math.min(top + band, a.height, b.height);
    for (let i = top * a.width; i < end * a.width; ++i)
      if ([0, 1, 2].some((c) => Math.abs(a.data[4 * i + c] - b.data[4 * i + c]) > mostDifference)) ++differ;
    shares.push(differ / ((end - top) * a.width));
  }
  return {sizes: '', shares};
}

/** Of a document what shows each part once, with a limit of memory that is near. */
function shortened(text) {
  const report = JSON.parse(text);
  report.memory.limit_bytes = Math.round(1.3 * Math.max(...report.stages.map((stage) => stage.peak_memory_bytes)));
  report.layouts.tensors.splice(4);
  report.communications.splice(4);
  report.candidates.splice(8);
  report.errors.rows.splice(5);
  return JSON.stringify(report);
}

/** @param accept the pictures and the document are kept as they are now */
export async function checkLooks(browser, folder, accept) {
  const page = readFileSync(`${folder}/small.html`, 'utf8');
  const [, now] = /id="document">([^]*?)<\/script>/.exec(page);
  if (accept) writeFileSync(kept + 'document.json', shortened(now) + '\n');
  const fixed = readFileSync(kept + 'document.json', 'utf8').trim();
  const keys = (text) => Object.keys(JSON.parse(text)).join(', ');
  assert.equal(keys(fixed), keys(now), 'keys of looks/document.json (tests/report_page/run --accept makes it anew)');
  writeFileSync(`${folder}/fixed.html`, page.replace(now, () => fixed));
  const comparing = await (await browser.newContext()).newPage();
  for (const [name, {viewport, colorScheme = 'light', media = 'screen'}] of Object.entries(looks)) {
    const context = await browser.newContext({viewport, colorScheme, deviceScaleFactor: 0.5, reducedMotion: 'reduce'});
    const tab = await context.newPage();
    await tab.emulateMedia({media, colorScheme});
    await tab.goto(`file://${folder}/fixed.html`);
    await tab.waitForSelector('html[data-ready]');
    await tab.addStyleTag({content: font});
    const picture = await tab.screenshot({path: `${folder}/${name}.png`, fullPage: true});
    await context.close();
    const url = (bytes) => 'data:image/png;base64,' + bytes.toString('base64');
    const after = await comparing.evaluate(smaller, [url(picture), square]), file = `${kept}${name}.png`;
    if (accept) writeFileSync(file, Buffer.from(after.split(',')[1], 'base64'));
    assert.ok(existsSync(file), `no looks/${name}.png (tests/report_page/run --accept makes it)`);
    const {sizes, shares} = await comparing.evaluate(differences, [url(readFileSync(file)), after, band, mostDifference]);
    assert.equal(sizes, '', `size of looks/${name}.png`);
    const worst = Math.max(...shares), height = 2 * square * band, at = height * shares.indexOf(worst);
    assert.ok(worst <= mostSquares, `${name} differs from looks/${name}.png in ${(100 * worst).toFixed(1)} % of the ` +
      `${height} pixels from ${at} down; if it should, tests/report_page/run --accept keeps it`);
    console.log(`  ${name}: at most ${(100 * worst).toFixed(1)} % of a band differ`);
  }
}
