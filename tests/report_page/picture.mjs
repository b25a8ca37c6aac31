// The top of a page as a picture; see picture.
import {chromium} from 'playwright-core';
const [browserPath, page, picture] = process.argv.slice(2);
const browser = await chromium.launch({executablePath: browserPath, args: ['--no-sandbox']});
const tab = await browser.newPage({viewport: {width: 1200, height: 1100}});
await tab.goto('file://' + page);
await tab.waitForSelector('html[data-ready]');
const view = await (await tab.$('#timeline-view')).boundingBox();
await tab.screenshot({path: picture, clip: {x: 0, y: 0, width: 1200, height: Math.ceil(view.y + view.height) + 2}});
await browser.close();
