// The timeline: acts on a canvas, below an axis; D3 zooms and moves it.

const shortStep = 0.1;  // of the view, by which an arrow moves it
const zoomStep = 1.5;
const smallFont = '11px system-ui, "DejaVu Sans", sans-serif';

class Timeline {
  /** @param {Acts} acts */
  constructor(acts) {
    this.acts = acts;
    this.data = acts.data;
    this.rows = acts.rows;
    this.view = byId('timeline-view');
    this.canvas = /** @type {HTMLCanvasElement} */ (byId('timeline-canvas'));
    this.tip = byId('timeline-tip');
    /** @type {Picked | null} */
    this.picked = null;
    /** @type {Picked | null} */
    this.pointed = null;
    /** @type {number | null} */
    this.frame = null;
    this.paper = false;  // drawn to its whole height
    this.view.style.height = acts.height + 2 + 'px';  // with its frame; its style says how high it may be
    // Ticks as pixels of the view: of all acts, and of those that are shown.
    this.all = linear([acts.first, acts.last], [0, 1]);
    this.x = this.all.copy();
    this.zoom = /** @type {d3.ZoomBehavior<HTMLElement, unknown>} */ (d3.zoom());
    this.zoomed = d3.select(this.view);
    this.resize();
    this.listen();
    this.showWhole();
    this.draw();
  }

  get gutter() {
    return Math.min(170, this.view.clientWidth * 0.25);
  }

  get begin() {
    return this.x.domain()[0];
  }

  get end() {
    return this.x.domain()[1];
  }

  get perPixel() {
    return (this.end - this.begin) / Math.max(1, this.view.clientWidth - this.gutter);
  }

  /** Takes the view's width. */
  resize() {
    const {first, last} = this.acts, right = Math.max(this.gutter + 1, this.view.clientWidth);
    this.all.range([this.gutter, right]);
    /** @type {[[number, number], [number, number]]} */
    const extent = [[this.gutter, 0], [right, 1]];
    this.zoom.extent(extent).translateExtent(extent).scaleExtent([1, Math.max(1, (last - first) / leastSpan)]);
  }

  /** @param {number} begin @param {number} end */
  show(begin, end) {
    const {first, last} = this.acts;
    const span = Math.min(Math.max(end - begin, leastSpan), last - first);
    const from = Math.min(Math.max((begin + end - span) / 2, first), last - span);
    const scale = (last - first) / span;
    this.zoom.transform(this.zoomed,
      d3.zoomIdentity.translate(this.gutter - scale * this.all(from), 0).scale(scale));
  }

  showWhole() {
    this.show(this.acts.home, this.acts.last);
  }

  /** The chosen act stays where it is, if it is in view. @param {number} factor */
  zoomBy(factor) {
    let still = (this.begin + this.end) / 2;
    if (this.picked) {
      const {row, index} = this.picked, middle = (row.start[index] + row.end[index]) / 2;
      if (middle >= this.begin && middle <= this.end) still = middle;
    }
    this.zoom.scaleBy(this.zoomed, factor, [this.x(still), 0]);
  }

  /** @param {number} share of the view */
  move(share) {
    const pixels = share * (this.view.clientWidth - this.gutter);
    this.zoom.translateBy(this.zoomed, -pixels / d3.zoomTransform(this.view).k, 0);
  }

  /** @param {number} x @param {number} y of the view @returns {Picked | null} */
  at(x, y) {
    const down = y < axisHeight ? -1 : y + this.view.scrollTop;
    const row = this.rows.find((r) => down >= r.top && down < r.top + r.height);
    if (!row || x < this.gutter) return null;
    this.acts.fill(row);
    const tick = this.x.invert(x), near = 2 * this.perPixel;
    const index = d3.bisectRight(row.start, tick, 0, row.count) - 1;
    if (index >= 0 && tick <= row.end[index] + near) return {row, index};
    return index + 1 < row.count && row.start[index + 1] - tick <= near ? {row, index: index + 1} : null;
  }

  /** @param {Picked | null} picked */
  choose(picked) {
    this.picked = picked;
    if (picked) byId('timeline-act').replaceChildren(descriptionList(this.acts.describe(picked)));
    this.redraw();
  }

  /** Chooses a row or an act beside the chosen one. @param {number} rows @param {number} acts */
  step(rows, acts) {
    const from = this.picked;
    const r = from ? this.rows.indexOf(from.row) : -1;
    const row = this.rows[Math.min(Math.max(r + rows, 0), this.rows.length - 1)];
    if (!row) return;
    this.acts.fill(row);
    if (row.count === 0) return;
    const centre = from ? from.row.start[from.index] : (this.begin + this.end) / 2;
    let index = from && rows === 0 ? from.index + acts : d3.bisectRight(row.start, centre, 0, row.count) - 1;
    index = Math.min(Math.max(index, 0), row.count - 1);
    const start = row.start[index], end = row.end[index];
    if (start < this.begin || end > this.end) {
      const half = Math.max(this.end - this.begin, end - start) / 2, middle = (start + end) / 2;
      this.show(middle - half, middle + half);
    }
    const top = this.view.scrollTop + axisHeight, bottom = this.view.scrollTop + this.view.clientHeight;
    if (row.top - titleHeight < top) this.view.scrollTop = row.top - titleHeight - axisHeight;
    else if (row.top + row.height > bottom) this.view.scrollTop = row.top + row.height - this.view.clientHeight + rowGap;
    this.choose({row, index});
  }

  listen() {
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    // The wheel alone, and one finger, scroll the page.
    this.zoom.clickDistance(3).duration(still ? 0 : 250)
      .filter(() => {
        const event = /** @type {MouseEvent | TouchEvent | WheelEvent} */ (d3.event);
        if (event.type === 'wheel') return event.ctrlKey;
        return 'touches' in event ? event.touches.length > 1 : event.button === 0;
      })
      .on('zoom', () => {
        const {transform} = /** @type {d3.D3ZoomEvent<HTMLElement, unknown>} */ (d3.event);
        this.x = transform.rescaleX(this.all);
        this.redraw();
      });
    this.zoomed.call(this.zoom)
      .on('click', () => {
        const picked = this.at(...this.place(/** @type {MouseEvent} */ (d3.event)));
        if (picked) this.choose(picked);
      })
      .on('pointermove', () => {
        const event = /** @type {PointerEvent} */ (d3.event);
        this.point(event.buttons ? null : this.at(...this.place(event)), event);
      })
      .on('pointerleave', () => this.point(null))
      .on('scroll', () => this.redraw())
      .on('keydown', () => this.press(/** @type {KeyboardEvent} */ (d3.event)));
    this.view.addEventListener('wheel', (event) => {
      if (event.ctrlKey || Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      this.move(event.deltaX / this.view.clientWidth);
    }, {passive: false});
    new ResizeObserver(() => {
      const [begin, end] = this.x.domain();
      this.resize();
      this.show(begin, end);
    }).observe(this.view);
    /** @type {Record<string, () => void>} */
    const does = {
      in: () => this.zoomBy(zoomStep),
      out: () => this.zoomBy(1 / zoomStep),
      left: () => this.move(-shortStep),
      right: () => this.move(shortStep),
      whole: () => this.showWhole(),
    };
    for (const button of document.querySelectorAll('[data-do]'))
      button.addEventListener('click', does[button.getAttribute('data-do') || '']);
    window.addEventListener('beforeprint', () => this.print(true));
    window.addEventListener('afterprint', () => this.print(false));
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.move(-shortStep),
      ArrowRight: () => this.move(shortStep),
      ArrowUp: () => this.step(-1, 0),
      ArrowDown: () => this.step(1, 0),
      '+': () => this.zoomBy(zoomStep),
      '=': () => this.zoomBy(zoomStep),
      '-': () => this.zoomBy(1 / zoomStep),
      0: () => this.showWhole(),
      Home: () => this.showWhole(),
      ',': () => this.step(0, -1),
      '.': () => this.step(0, 1),
      Escape: () => this.choose(null),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** @param {boolean} paper */
  print(paper) {
    this.paper = paper;
    this.draw();
  }

  /** @param {MouseEvent} event @returns {[number, number]} of the view */
  place(event) {
    const box = this.view.getBoundingClientRect();
    return [event.clientX - box.left - this.view.clientLeft, event.clientY - box.top - this.view.clientTop];
  }

  /** @param {Picked | null} pointed @param {MouseEvent} [event] */
  point(pointed, event) {
    const before = this.pointed;
    const same = !!before && !!pointed && before.row === pointed.row && before.index === pointed.index;
    this.pointed = pointed;
    this.tip.hidden = !pointed;
    if (!pointed || !event) {
      if (before) this.redraw();
      return;
    }
    if (!same) {
      this.tip.replaceChildren(descriptionList(this.acts.describe(pointed)));
      this.redraw();
    }
    const margin = 14, {offsetWidth: width, offsetHeight: height} = this.tip;
    const right = event.clientX + margin + width < window.innerWidth;
    const below = event.clientY + margin + height < window.innerHeight;
    this.tip.style.left = (right ? event.clientX + margin : Math.max(4, event.clientX - margin - width)) + 'px';
    this.tip.style.top = (below ? event.clientY + margin : Math.max(4, event.clientY - margin - height)) + 'px';
  }

  redraw() {
    if (this.frame !== null) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const {view, canvas} = this;
    const mostPaper = 4000;  // pixels, of a printed timeline
    const width = view.clientWidth, height = this.paper ? Math.min(this.acts.height, mostPaper) :
      Math.min(view.clientHeight, this.acts.height);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.height = height + 'px';
    byId('timeline-space').style.height = Math.max(0, this.acts.height - height) + 'px';
    const context = canvas.getContext('2d', {alpha: false});
    if (!context) return;
    const colours = themeColours();
    context.scale(ratio, ratio);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, height);
    const scroll = this.paper ? 0 : view.scrollTop;
    const fills = this.data.kinds.map((kind) => canvasFill(context, styleOf(kind), ratio));
    context.textBaseline = 'middle';
    for (const row of this.rows) {
      const y = row.top - scroll;
      if (y + rowHeight >= axisHeight && y <= height) this.drawRow(context, row, y, width, fills, colours);
    }
    this.drawMark(context, this.picked, scroll, colours.ink);
    this.drawMark(context, this.pointed, scroll, colours.ink);
    this.drawAxis(context, width, height, scroll, colours);
    view.dataset.begin = String(this.begin);
    view.dataset.end = String(this.end);
    view.dataset.drawMs = String(performance.now() - began);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {Row} row @param {number} y @param {number} width
   * @param {(string | CanvasPattern)[]} fills @param {Colours} colours
   */
  drawRow(context, row, y, width, fills, colours) {
    this.acts.fill(row);
    const {gutter, perPixel, begin, end} = this;
    const actors = this.data.programs[this.data.classes[row.cls].program].actors;
    context.fillStyle = colours.quiet;
    context.font = smallFont;
    context.fillText(row.title, 14, y + rowHeight / 2 + 1, gutter - 18);
    context.fillStyle = colours.idle;
    context.fillRect(gutter, y, width - gutter, rowHeight);
    const kinds = fills.length;
    const cover = new Float64Array(kinds);
    let column = -1;
    const flush = () => {
      if (column < 0) return;
      let bottom = y + rowHeight;
      for (let k = 0; k < kinds; ++k) {
        if (cover[k] === 0) continue;
        const high = Math.max(1, Math.min(1, cover[k]) * rowHeight);  // a pixel, however short
        context.fillStyle = fills[k];
        context.fillRect(gutter + column, bottom - high, 1, high);
        bottom -= high;
        cover[k] = 0;
      }
      column = -1;
    };
    /** @type {{act: number, x: number, room: number}[]} */
    const texts = [];
    const leastText = 26, perLetter = 6;
    let i = Math.max(0, d3.bisectRight(row.start, begin, 0, row.count) - 1);
    while (i > 0 && row.end[i - 1] > begin) --i;
    for (; i < row.count && row.start[i] < end; ++i) {
      if (row.end[i] < begin) continue;
      const from = (Math.max(row.start[i], begin) - begin) / perPixel;
      const to = (Math.min(row.end[i], end) - begin) / perPixel;
      const kind = actors.kind[row.actor[i]];
      if (to - from < 1) {
        const here = Math.floor(from);
        if (here !== column) flush();
        column = here;
        const next = Math.min(to, here + 1);
        cover[kind] += next - from;
        if (to > next) {
          flush();
          column = here + 1;
          cover[kind] += to - next;
        }
        continue;
      }
      flush();
      context.fillStyle = fills[kind];
      context.fillRect(gutter + from, y, to - from, rowHeight);
      if (to - from < leastText) continue;
      context.fillStyle = colours.page;
      context.fillRect(gutter + to - 0.5, y, 0.5, rowHeight);
      texts.push({act: i, x: gutter + from + 3, room: Math.floor((to - from - 6) / perLetter)});
    }
    flush();
    context.font = '10px system-ui, "DejaVu Sans", sans-serif';
    for (const {act, x, room} of texts) {
      const whole = this.acts.nameOf(this.data.classes[row.cls].program, row.actor[act]);
      const name = whole.length <= room ? whole : whole.replace(/^h\d+\./, '');  // its layer is left out first
      const text = name.length <= room ? name : name.slice(0, room - 1) + '…';
      const {colour, text: ink, pattern} = styleOf(this.data.kinds[actors.kind[row.actor[act]]]);
      if (pattern !== 'solid') {  // read on a plain ground
        context.fillStyle = colour;
        context.fillRect(x - 1, y + 3, context.measureText(text).width + 2, rowHeight - 6);
      }
      context.fillStyle = ink;
      context.fillText(text, x, y + rowHeight / 2 + 1);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Picked | null} picked @param {number} scroll @param {string} ink */
  drawMark(context, picked, scroll, ink) {
    if (!picked) return;
    const {row, index} = picked, y = row.top - scroll;
    const from = Math.max(0, (row.start[index] - this.begin) / this.perPixel);
    const to = (row.end[index] - this.begin) / this.perPixel;
    if (to < 0 || row.start[index] > this.end) return;
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(this.gutter + from, y, Math.max(2, to - from), rowHeight);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {number} scroll
   * @param {Colours} colours */
  drawTitles(context, width, height, scroll, colours) {
    for (const {title, top} of this.acts.titles) {
      const y = top - scroll;
      if (y + titleHeight < axisHeight || y > height) continue;
      context.fillStyle = colours.page;
      context.fillRect(0, y, width, titleHeight);
      context.fillStyle = colours.ink;
      context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(title, 6, y + titleHeight / 2 + 2);
    }
  }

  /**
   * Titles and axis, with lines through all rows.
   * @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {number} scroll
   * @param {Colours} colours
   */
  drawAxis(context, width, height, scroll, colours) {
    const {gutter, begin, end} = this, seconds = this.data.tick_s;
    const [factor, unit] = end * seconds >= 1 ? [1, 's'] : end * seconds >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
    const x = linear([begin * seconds * factor, end * seconds * factor], [gutter, width]);
    const count = (width - gutter) / 110;  // pixels between labels
    const ticks = x.ticks(count), text = x.tickFormat(count);
    context.fillStyle = colours.line;
    context.fillRect(gutter - 1, 0, 1, height);
    context.globalAlpha = 0.35;
    for (const tick of ticks) context.fillRect(x(tick), axisHeight, 1, height - axisHeight);
    context.globalAlpha = 1;
    this.drawTitles(context, width, height, scroll, colours);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, axisHeight);
    context.font = smallFont;
    for (const tick of ticks) {
      const label = `${text(tick)} ${unit}`, room = context.measureText(label).width;
      context.fillStyle = colours.line;
      context.fillRect(x(tick), axisHeight - 6, 1, 6);
      context.fillStyle = colours.ink;
      if (x(tick) + room / 2 < width) context.fillText(label, x(tick) - room / 2, axisHeight / 2 - 2);
    }
    context.fillStyle = colours.line;
    context.fillRect(0, axisHeight - 1, width, 1);
    const precision = ((end - begin) * seconds) / 1000, most = end * seconds;
    byId('timeline-range').textContent =
      `from ${momentText(begin * seconds, precision, most)} to ${momentText(most, precision)} of the step`;
  }
}
