// Draws the document of a report (cli/report_document.h). No library; checked by tsc with --checkJs --strict.
'use strict';

/**
 * @typedef {{name: string, text: string}} VerdictLine
 * @typedef {{name: number[], layer: number[], op: number[], kind: number[], queue: number[], phase: number[],
 *   bytes: number[], inputs: number[], input_register: number[], input_repeat: number[], input_peers: number[]}} Actors
 * @typedef {{name: number[], layer: number[], producer: number[], every: number[], initial: number[],
 *   count: number[]}} Registers
 * @typedef {{name: string, queues: string[], phases: string[], actors: Actors, registers: Registers}} Program
 * @typedef {{program: number, devices: string, stands_for: number, kept: boolean, queue_busy_s: number[],
 *   peer_class: number[]}} DeviceClass
 * @typedef {{tick_s: number, step_ticks: number, classes: DeviceClass[], programs: Program[], names: string[],
 *   kinds: string[], runs: {class: number[], queue: number[], phase: number[], micro_batch: number[], run: number[],
 *   shape: number[], begin: number[]}, shapes: {first: number[], start: number[], duration: number[]}}} TimelineData
 * @typedef {{name: string, role: string, type: string, shape: number[], layout: string[], blocks: number,
 *   ranges: number[][][], devices: string[]}} LaidTensor
 * @typedef {{name: string, gpus: number, layers: string, mesh: string, in_flight: number, busy_s: number,
 *   bubble_fraction: number, exposed_comm_s: number, peak_memory_bytes: number,
 *   memory_bytes: Record<string, number>}} Stage
 * @typedef {{stage: string, link: string, link_bandwidth_bytes_per_s: number, what: string, over: string, acts: number,
 *   bytes: number, alone_s: number, simulated_s: number}} Link
 * @typedef {{framework: string, device: string, least_gpus: number, published_steps: number, share: number,
 *   step_time_range_s: [number, number], used: boolean}} ErrorRow
 * @typedef {{name: string, what: string, half_step_s: number | null, double_step_s: number | null}} Sensitive
 * @typedef {{
 *   plan: string, cluster: string, device: string, framework: string, gpus: number, verdict: VerdictLine[],
 *   result: {fits: boolean, step_time_s: number, first_step_time_s: number, samples_per_s: number,
 *     tokens_per_s: number, model_tflops_per_gpu: number, hardware_tflops_per_gpu: number, mfu: number,
 *     bubble_fraction: number, exposed_comm_s: number, comm_bytes: Record<string, number>,
 *     configuration: Record<string, string>},
 *   stages: Stage[],
 *   communications: {name: string, stage: string, over: string, why: string, s: number, bytes: number, acts: number}[],
 *   links: Link[],
 *   memory: {windows: number, unit_bytes: number, limit_bytes: number,
 *     stages: {class: number, held: Record<string, number[]>}[]},
 *   layouts: null | {layer: number, stage: number, mesh: {name: string, devices: number}[], tensors: LaidTensor[],
 *     left_out: number},
 *   candidates: {compared: string, flags: string}[],
 *   sensitivity?: Sensitive[],
 *   errors: {text: string, rows: ErrorRow[]},
 *   timeline: TimelineData}} ReportDocument
 */

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error('no element ' + id);
  return found;
}

const began = performance.now();
/** @type {ReportDocument} */
const report = JSON.parse(byId('document').textContent || '');

// Elements.

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const name in attributes) made.setAttribute(name, String(attributes[name]));
  made.append(...children);
  return made;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const name in attributes) made.setAttribute(name, String(attributes[name]));
  made.append(...children);
  return made;
}

/**
 * A table; a cell is text, or a node. Columns whose title begins with "#" hold numbers.
 * @param {string[]} titles
 * @param {(string | Node)[][]} rows
 * @param {{caption?: string, used?: (row: number) => boolean}} options
 */
function table(titles, rows, options = {}) {
  const numeric = titles.map((title) => title.startsWith('#'));
  const head = element('tr', {});
  titles.forEach((title, i) =>
    head.append(element('th', {scope: 'col', ...(numeric[i] ? {class: 'number'} : {})}, title.replace(/^#/, ''))));
  const body = element('tbody', {});
  rows.forEach((row, r) => {
    const line = element('tr', options.used && options.used(r) ? {class: 'used'} : {});
    row.forEach((cell, i) =>
      line.append(element(i === 0 ? 'th' : 'td',
        {...(i === 0 ? {scope: 'row'} : {}), ...(numeric[i] ? {class: 'number'} : {})}, cell)));
    body.append(line);
  });
  const made = element('table', {});
  if (options.caption) made.append(element('caption', {}, options.caption));
  made.append(element('thead', {}, head), body);
  return made;
}

// Numbers as the program writes them (ir/units.h).

/** As %.Ng of C: @param {number} value @param {number} digits */
function digits(value, digits) {
  if (value === 0) return '0';
  const exponent = Number(value.toExponential(digits - 1).split('e')[1]);
  if (exponent < -4 || exponent >= digits) {
    const [mantissa, power] = value.toExponential(digits - 1).split('e');
    const size = Math.abs(Number(power));
    return String(Number(mantissa)) + 'e' + (Number(power) < 0 ? '-' : '+') + (size < 10 ? '0' : '') + size;
  }
  return String(Number(value.toPrecision(digits)));
}

/** @param {number} bytes */
function bytesText(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
  let unit = 0;
  while (Math.abs(bytes) >= 999.5 && unit < units.length - 1) {
    bytes /= 1000;
    ++unit;
  }
  return unit === 0 ? bytes.toFixed(0) + ' B' : digits(bytes, 3) + ' ' + units[unit];
}

/** @param {number} seconds */
function secondsText(seconds) {
  if (Math.abs(seconds) >= 1) return digits(seconds, 4) + ' s';
  if (Math.abs(seconds) >= 1e-3) return digits(seconds * 1e3, 4) + ' ms';
  return digits(seconds * 1e6, 4) + ' us';
}

/** A moment of the step, to a microsecond. @param {number} seconds */
function momentText(seconds) {
  return Math.abs(seconds) >= 1 ? seconds.toFixed(6) + ' s' : (seconds * 1e3).toFixed(3) + ' ms';
}

/** @param {number} share */
const percent = (share) => (100 * share).toFixed(1) + ' %';

// Colours of Okabe and Ito, each with a pattern, so that no meaning hangs on colour alone.

/**
 * @typedef {'solid' | 'rising' | 'falling' | 'cross' | 'dots' | 'level' | 'upright'} Pattern
 * @typedef {{colour: string, text: string, pattern: Pattern, label: string}} Style
 */
/** @param {string} colour @param {string} text @param {Pattern} pattern @param {string} label @returns {Style} */
const style = (colour, text, pattern, label) => ({colour, text, pattern, label});

/** @type {Record<string, Style>} */
const kindStyles = {
  forward: style('#0072b2', '#ffffff', 'solid', 'forward pass'),
  recompute: style('#56b4e9', '#000000', 'dots', 'recomputation'),
  backward: style('#e69f00', '#000000', 'solid', 'backward pass'),
  weight: style('#f0e442', '#000000', 'upright', 'gradients of parameters'),
  reduce: style('#f0e442', '#000000', 'level', 'sums of gradients'),
  update: style('#009e73', '#ffffff', 'solid', 'update'),
  all_reduce: style('#cc79a7', '#000000', 'rising', 'all_reduce'),
  reduce_scatter: style('#d55e00', '#000000', 'falling', 'reduce_scatter'),
  all_gather: style('#56b4e9', '#000000', 'cross', 'all_gather'),
  all_to_all: style('#009e73', '#000000', 'cross', 'all_to_all'),
  pull: style('#999999', '#000000', 'level', 'pull from another stage'),
  copy: style('#999999', '#000000', 'upright', 'copy between host and device'),
  host: style('#999999', '#000000', 'dots', 'work of the host'),
};
const otherStyle = style('#999999', '#000000', 'solid', '');

/** @param {string} kind @returns {Style} */
const styleOf = (kind) => kindStyles[kind] || {...otherStyle, label: kind};

/** @type {Record<string, Style>} */
const memoryStyles = {
  parameters: style('#0072b2', '#ffffff', 'solid', 'parameters'),
  gradients: style('#e69f00', '#000000', 'rising', 'gradients'),
  optimizer: style('#009e73', '#ffffff', 'cross', 'optimizer states'),
  activations: style('#56b4e9', '#000000', 'dots', 'activations'),
  workspace: style('#cc79a7', '#000000', 'upright', 'workspace'),
};

const tileSize = 8;  // of a pattern, in pixels

/**
 * The lines of a pattern's tile, as a path that SVG and canvas read.
 * @type {Record<Pattern, string>}
 */
const tilePaths = {
  solid: '',
  rising: 'M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6',
  falling: 'M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2',
  cross: 'M0,8 L8,0 M0,0 L8,8',
  dots: 'M2,2 h1 v1 h-1 z M6,6 h1 v1 h-1 z',
  level: 'M0,2 H8 M0,6 H8',
  upright: 'M2,0 V8 M6,0 V8',
};
const patternInk = 'rgb(0 0 0 / 45%)';

/** @param {CanvasRenderingContext2D} context @param {Style} s @param {number} ratio @returns {string | CanvasPattern} */
function canvasFill(context, s, ratio) {
  if (s.pattern === 'solid') return s.colour;
  const tile = document.createElement('canvas');
  tile.width = tile.height = Math.round(tileSize * ratio);
  const drawn = tile.getContext('2d');
  if (!drawn) return s.colour;
  drawn.fillStyle = s.colour;
  drawn.fillRect(0, 0, tile.width, tile.height);
  drawn.scale(tile.width / tileSize, tile.height / tileSize);
  drawn.strokeStyle = patternInk;
  drawn.stroke(new Path2D(tilePaths[s.pattern]));
  const pattern = context.createPattern(tile, 'repeat');
  if (!pattern) return s.colour;
  pattern.setTransform(new DOMMatrix([tileSize / tile.width, 0, 0, tileSize / tile.height, 0, 0]));
  return pattern;
}

/** @param {string} id @param {Style} s */
function svgPattern(id, s) {
  return drawing('pattern', {id, width: tileSize, height: tileSize, patternUnits: 'userSpaceOnUse'},
    drawing('rect', {width: tileSize, height: tileSize, fill: s.colour}),
    drawing('path', {d: tilePaths[s.pattern], stroke: patternInk, fill: 'none'}));
}

/** @param {Style} s */
function swatch(s) {
  const id = 'swatch-' + s.label.replace(/\W/g, '-');
  return drawing('svg', {width: 22, height: 14, 'aria-hidden': 'true'}, drawing('defs', {}, svgPattern(id, s)),
    drawing('rect', {width: 22, height: 14, fill: `url(#${id})`}));
}

/** @param {HTMLElement} list @param {Style[]} styles */
function fillLegend(list, styles) {
  for (const s of styles) list.append(element('li', {}, swatch(s), s.label));
}

/**
 * A bar of a table, from 0 to `most`.
 * @param {number} value @param {number} most @param {string} fill
 */
function bar(value, most, fill = '#0072b2') {
  const width = 160, height = 14;
  return drawing('svg', {width, height, 'aria-hidden': 'true'},
    drawing('rect', {class: 'axis', x: 0.5, y: 0.5, width: width - 1, height: height - 1}),
    drawing('rect', {width: most > 0 ? Math.max(1, (width * value) / most) : 0, height, fill}));
}

// Verdict and numbers.

function showVerdict() {
  byId('job').textContent =
    `${report.gpus.toLocaleString('en')} GPUs, cluster ${report.cluster}, device ${report.device}, ` +
    `framework ${report.framework}`;
  const lines = byId('verdict-lines');
  for (const line of report.verdict) {
    const bad = line.name === 'fits' && !report.result.fits;
    lines.append(element('dt', {}, line.name), element('dd', bad ? {class: 'alert'} : {}, line.text));
  }
  const r = report.result;
  /** @type {(string | Node)[][]} */
  const rows = [
    ['step time', secondsText(r.step_time_s) + ', the first step ' + secondsText(r.first_step_time_s)],
    ['throughput', digits(r.samples_per_s, 4) + ' samples/s' +
      (r.tokens_per_s > 0 ? ', ' + digits(r.tokens_per_s, 4) + ' tokens/s' : '')],
    ['model compute', r.model_tflops_per_gpu.toFixed(1) + ' TFLOP/s per GPU, MFU ' + percent(r.mfu)],
    ['hardware compute', r.hardware_tflops_per_gpu.toFixed(1) + ' TFLOP/s per GPU, recomputation included'],
    ['idle', percent(r.bubble_fraction) + " of the compute queue's time, mean over stages"],
    ['exposed communication', secondsText(r.exposed_comm_s) + ' on the worst stage'],
  ];
  for (const name in r.comm_bytes) rows.push([name, bytesText(r.comm_bytes[name]) + ' per step over all devices']);
  byId('numbers').append(table(['number', 'value'], rows));
}

// The timeline.

/**
 * The acts of one queue of one class, by start.
 * Its columns are filled when it is first looked at.
 * @typedef {{cls: number, queue: number, title: string, top: number, height: number, runs: number[], filled: boolean,
 *   count: number, start: Int32Array, end: Int32Array, actor: Int32Array, run: Int32Array}} Row
 * @typedef {{row: Row, index: number}} Picked
 * @typedef {{end: number, text: string}} Cause
 */

const axisHeight = 22, titleHeight = 22, rowHeight = 18, rowGap = 2;
const leastSpan = 50;  // ticks that the view shows at least
const shortStep = 0.1;  // of the view, by which an arrow moves it
const zoomStep = 1.5;

class Timeline {
  /** @param {TimelineData} data */
  constructor(data) {
    this.data = data;
    this.view = byId('timeline-view');
    this.canvas = /** @type {HTMLCanvasElement} */ (byId('timeline-canvas'));
    this.tip = byId('timeline-tip');
    /** @type {Row[]} */
    this.rows = [];
    /** @type {{title: string, top: number}[]} */
    this.titles = [];
    this.height = axisHeight;
    this.first = 0;  // of all acts: those that load may run ahead by a step
    this.last = data.step_ticks;
    this.home = 0;  // where the whole step is shown from: the first act of a compute queue
    /** By program, queue and phase: the actors, and the place of each among them. */
    this.members = data.programs.map((program) => this.membersOf(program));
    /** By class, queue and phase: runs by number. @type {Map<string, number[]>} */
    this.runs = new Map();
    /** By program: the readers of each register. @type {Map<number, {actor: number, input: number}[][]>} */
    this.readers = new Map();
    this.unpack();
    this.begin = this.home;
    this.end = this.last;
    /** @type {Picked | null} */
    this.picked = null;
    /** @type {Picked | null} */
    this.pointed = null;
    /** @type {number | null} */
    this.frame = null;
    this.whole = false;  // drawn to its whole height, for paper
    this.view.style.height = this.height + 2 + 'px';  // with its frame; its style says how high it may be
    this.listen();
    this.draw();
  }

  /** @param {Program} program */
  membersOf(program) {
    const {queue, phase} = program.actors;
    /** @type {Map<string, number[]>} */
    const actors = new Map();
    const place = new Int32Array(queue.length);
    for (let a = 0; a < queue.length; ++a) {
      const key = queue[a] + ' ' + phase[a];
      let list = actors.get(key);
      if (!list) actors.set(key, (list = []));
      place[a] = list.length;
      list.push(a);
    }
    return {actors, place};
  }

  unpack() {
    const {classes, programs, runs, shapes} = this.data;
    /** @type {Map<string, number[]>} */
    const byRow = new Map();
    for (let r = 0; r < runs.class.length; ++r) {
      const row = runs.class[r] + ' ' + runs.queue[r];
      const list = byRow.get(row);
      if (list) list.push(r);
      else byRow.set(row, [r]);
      const key = row + ' ' + runs.phase[r];
      let numbered = this.runs.get(key);
      if (!numbered) this.runs.set(key, (numbered = []));
      numbered[runs.run[r]] = r;
    }
    /** Of each shape, after its begin. @type {number[]} */
    const from = [];
    /** @type {number[]} */
    const to = [];
    for (let shape = 0; shape + 1 < shapes.first.length; ++shape) {
      let least = 0, most = 0;
      for (let i = shapes.first[shape]; i < shapes.first[shape + 1]; ++i) {
        least = Math.min(least, shapes.start[i]);
        most = Math.max(most, shapes.start[i] + shapes.duration[i]);
      }
      from.push(least);
      to.push(most);
    }
    classes.forEach((cls, c) => {
      if (!cls.kept) return;
      const program = programs[cls.program];
      const many = cls.stands_for > 1 ? `, the first of ${cls.devices}` : '';
      this.titles.push({title: `${program.name}: device ${parseInt(cls.devices, 10)}${many}`, top: this.height});
      this.height += titleHeight;
      program.queues.forEach((title, q) => {
        const list = byRow.get(c + ' ' + q);
        if (!list) return;
        const none = new Int32Array(0);
        /** @type {Row} */
        const row = {cls: c, queue: q, title, top: this.height, height: rowHeight, runs: list, filled: false, count: 0,
          start: none, end: none, actor: none, run: none};
        for (const r of list) {
          const shape = runs.shape[r];
          if (title === 'compute') this.home = Math.min(this.home, runs.begin[r] + from[shape]);
          this.first = Math.min(this.first, runs.begin[r] + from[shape]);
          this.last = Math.max(this.last, runs.begin[r] + to[shape]);
        }
        this.rows.push(row);
        this.height += rowHeight + rowGap;
      });
    });
  }

  /** @param {Row} row */
  fill(row) {
    if (row.filled) return;
    row.filled = true;
    const {classes, runs, shapes} = this.data;
    const {actors} = this.members[classes[row.cls].program];
    row.runs.sort((a, b) => runs.begin[a] - runs.begin[b]);
    row.count = row.runs.reduce((sum, r) => sum + shapes.first[runs.shape[r] + 1] - shapes.first[runs.shape[r]], 0);
    const start = new Int32Array(row.count), end = new Int32Array(row.count), actor = new Int32Array(row.count),
      run = new Int32Array(row.count);
    let next = 0, sorted = true;
    for (const r of row.runs) {
      const members = actors.get(row.queue + ' ' + runs.phase[r]) || [];
      const base = shapes.first[runs.shape[r]];
      for (let i = 0; i < members.length; ++i, ++next) {
        start[next] = runs.begin[r] + shapes.start[base + i];
        end[next] = start[next] + shapes.duration[base + i];
        actor[next] = members[i];
        run[next] = r;
        if (next > 0 && start[next] < start[next - 1]) sorted = false;
      }
    }
    Object.assign(row, {start, end, actor, run});
    if (!sorted) sortRow(row);
  }

  /** @param {number} program @param {number} actor */
  nameOf(program, actor) {
    const {name, layer} = this.data.programs[program].actors;
    return this.named(name[actor], layer[actor]);
  }

  /** @param {number} name @param {number} layer */
  named(name, layer) {
    return layer < 0 ? this.data.names[name] : this.data.names[name].replace('h*', 'h' + layer);
  }

  /**
   * Begin and end of an act by its number in the step; null before the step.
   * @param {number} cls @param {number} actor @param {number} index
   */
  times(cls, actor, index) {
    if (index < 0) return null;
    const {programs, classes, runs, shapes} = this.data;
    const program = classes[cls].program;
    const {queue, phase} = programs[program].actors;
    const numbered = this.runs.get(cls + ' ' + queue[actor] + ' ' + phase[actor]);
    if (!numbered || numbered[index] === undefined) return null;
    const r = numbered[index];
    const at = shapes.first[runs.shape[r]] + this.members[program].place[actor];
    const start = runs.begin[r] + shapes.start[at];
    return {start, end: start + shapes.duration[at], micro_batch: runs.micro_batch[r]};
  }

  /** @param {number} program */
  readersOf(program) {
    let found = this.readers.get(program);
    if (found) return found;
    const {actors, registers} = this.data.programs[program];
    found = registers.name.map(() => /** @type {{actor: number, input: number}[]} */ ([]));
    for (let a = 0; a < actors.name.length; ++a)
      for (let i = actors.inputs[a]; i < actors.inputs[a + 1]; ++i)
        if (actors.input_peers[i] < 0) found[actors.input_register[i]].push({actor: a, input: i});
    this.readers.set(program, found);
    return found;
  }

  /**
   * What an act had to wait for, the latest last: the act before it on its queue, the acts that made what it
   * reads, the acts that read what its results are written over.
   * @param {Picked} picked @returns {Cause[]}
   */
  causes({row, index}) {
    const {classes, programs, runs} = this.data;
    const program = classes[row.cls].program;
    const {actors, registers} = programs[program];
    const actor = row.actor[index], number = runs.run[row.run[index]];
    /** @type {Cause[]} */
    const all = [];
    if (index > 0)
      all.push({end: row.end[index - 1], text: `the queue: ${this.nameOf(program, row.actor[index - 1])} before it`});
    for (let i = actors.inputs[actor]; i < actors.inputs[actor + 1]; ++i) {
      const peers = actors.input_peers[i];
      const from = peers < 0 ? row.cls : classes[row.cls].peer_class[peers];
      if (from < 0) continue;
      const other = classes[from].program, regs = programs[other].registers, reg = actors.input_register[i];
      if (regs.producer[reg] < 0) continue;
      const writer = (Math.floor(number / actors.input_repeat[i]) - regs.initial[reg] + 1) * regs.every[reg] - 1;
      const made = this.times(from, regs.producer[reg], writer);
      const what = this.named(regs.name[reg], regs.layer[reg]);
      const where = from === row.cls ? '' : ` on ${programs[other].name}`;
      if (made) all.push({end: made.end, text: `%${what} from ${this.nameOf(other, regs.producer[reg])}${where}`});
    }
    registers.producer.forEach((producer, reg) => {
      if (producer !== actor) return;
      const version = Math.floor(number / registers.every[reg]) + registers.initial[reg] - registers.count[reg];
      if (version < 0) return;
      for (const reader of this.readersOf(program)[reg]) {
        const repeat = actors.input_repeat[reader.input];
        const read = this.times(row.cls, reader.actor, version * repeat + repeat - 1);
        if (read)
          all.push({end: read.end, text: `a free slot of %${this.named(registers.name[reg], registers.layer[reg])}, ` +
            `which ${this.nameOf(program, reader.actor)} read`});
      }
    });
    const rounding = 4;  // ticks
    return all.filter((cause) => cause.end <= row.start[index] + rounding).sort((a, b) => a.end - b.end);
  }

  /** @param {Picked} picked @returns {[string, string][]} */
  describe(picked) {
    const {row, index} = picked;
    const {classes, programs, runs, kinds, names, tick_s} = this.data;
    const program = classes[row.cls].program, actors = programs[program].actors, actor = row.actor[index];
    const kind = kinds[actors.kind[actor]], run = row.run[index];
    const moves = kind in kindStyles && !['forward', 'recompute', 'backward', 'weight', 'reduce', 'update'].includes(kind);
    const idle = index > 0 ? row.start[index] - row.end[index - 1] : 0;
    const causes = this.causes(picked), latest = causes[causes.length - 1];
    /** @type {[string, string][]} */
    const lines = [
      ['act', this.nameOf(program, actor)],
      ['op', `${names[actors.op[actor]]}, ${styleOf(kind).label}, phase ${programs[program].phases[actors.phase[actor]]}` +
        `, micro-batch ${runs.micro_batch[run]}`],
      ['where', `${programs[program].name}, queue ${row.title}`],
      ['time', `${secondsText((row.end[index] - row.start[index]) * tick_s)}, begins at ` +
        momentText(row.start[index] * tick_s)],
      ['bytes', bytesText(actors.bytes[actor]) + (moves ? ' moved' : ' of operands and results')],
    ];
    if (!latest) {
      lines.push(['waits for', 'nothing in this step']);
    } else {
      const gap = row.start[index] - latest.end;
      const group = kind in kindStyles && kind.includes('_') && gap > leastSpan / 10;
      lines.push(['waits for', latest.text + `, until ${momentText(latest.end * tick_s)}` +
        (group ? `; then ${secondsText(gap * tick_s)} for the other members of its group` : '')]);
    }
    lines.push(['queue idle', idle > 0 ? `${secondsText(idle * tick_s)} before it` : 'not before it']);
    return lines;
  }

  // View.

  get gutter() {
    return Math.min(170, this.view.clientWidth * 0.25);
  }

  get perPixel() {
    return (this.end - this.begin) / Math.max(1, this.view.clientWidth - this.gutter);
  }

  /** @param {number} begin @param {number} end */
  show(begin, end) {
    const span = Math.min(Math.max(end - begin, leastSpan), this.last - this.first);
    const middle = (begin + end) / 2;
    this.begin = Math.min(Math.max(middle - span / 2, this.first), this.last - span);
    this.end = this.begin + span;
    this.redraw();
  }

  /** @param {number} factor @param {number} [centre] a tick that stays where it is */
  zoom(factor, centre) {
    const still = centre === undefined ? (this.begin + this.end) / 2 : centre;
    this.show(still - (still - this.begin) * factor, still + (this.end - still) * factor);
  }

  /** @param {number} share of the view */
  move(share) {
    const by = share * (this.end - this.begin);
    const fits = Math.min(Math.max(by, this.first - this.begin), this.last - this.end);
    this.show(this.begin + fits, this.end + fits);
  }

  /** @param {number} x @param {number} y of the view @returns {Picked | null} */
  at(x, y) {
    const down = y < axisHeight ? -1 : y + this.view.scrollTop;
    const row = this.rows.find((r) => down >= r.top && down < r.top + r.height);
    if (!row || x < this.gutter) return null;
    this.fill(row);
    const tick = this.begin + (x - this.gutter) * this.perPixel;
    const index = lastFrom(row.start, tick, row.count);
    const near = 2 * this.perPixel;
    if (index >= 0 && tick <= row.end[index] + near) return {row, index};
    return index + 1 < row.count && row.start[index + 1] - tick <= near ? {row, index: index + 1} : null;
  }

  /** @param {Picked | null} picked */
  choose(picked) {
    this.picked = picked;
    const panel = byId('timeline-act');
    if (picked) panel.replaceChildren(descriptionList(this.describe(picked)));
    this.redraw();
  }

  /** Chooses a row or an act beside the chosen one. @param {number} rows @param {number} acts */
  step(rows, acts) {
    const from = this.picked;
    const r = from ? this.rows.indexOf(from.row) : -1;
    const row = this.rows[Math.min(Math.max(r + rows, 0), this.rows.length - 1)];
    if (!row) return;
    this.fill(row);
    if (row.count === 0) return;
    const centre = from ? from.row.start[from.index] : (this.begin + this.end) / 2;
    let index = from && rows === 0 ? from.index + acts : Math.max(0, lastFrom(row.start, centre, row.count));
    index = Math.min(Math.max(index, 0), row.count - 1);
    const start = row.start[index], end = row.end[index];
    if (start < this.begin || end > this.end) {
      const span = Math.max(this.end - this.begin, end - start);
      this.begin = Math.min(Math.max((start + end - span) / 2, this.first), Math.max(this.first, this.last - span));
      this.end = this.begin + span;
    }
    const top = this.view.scrollTop + axisHeight, bottom = this.view.scrollTop + this.view.clientHeight;
    if (row.top - titleHeight < top) this.view.scrollTop = row.top - titleHeight - axisHeight;
    else if (row.top + row.height > bottom) this.view.scrollTop = row.top + row.height - this.view.clientHeight + rowGap;
    this.choose({row, index});
  }

  listen() {
    const {view} = this;
    view.addEventListener('scroll', () => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(view);
    view.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      /** @type {Record<string, () => void>} */
      const keys = {
        ArrowLeft: () => this.move(-shortStep),
        ArrowRight: () => this.move(shortStep),
        ArrowUp: () => this.step(-1, 0),
        ArrowDown: () => this.step(1, 0),
        '+': () => this.zoom(1 / zoomStep, this.focus()),
        '=': () => this.zoom(1 / zoomStep, this.focus()),
        '-': () => this.zoom(zoomStep, this.focus()),
        0: () => this.show(this.home, this.last),
        Home: () => this.show(this.home, this.last),
        ',': () => this.step(0, -1),
        '.': () => this.step(0, 1),
        Escape: () => this.choose(null),
      };
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    view.addEventListener('wheel', (event) => {
      const {x, y} = this.place(event);
      if (event.ctrlKey) {
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? zoomStep : 1 / zoomStep, this.begin + Math.max(0, x - this.gutter) * this.perPixel);
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.move(event.deltaX / view.clientWidth);
      }
      this.point(this.at(x, y), event);
    }, {passive: false});
    /** @type {number | null} */
    let held = null;
    let dragged = false;
    view.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      held = event.clientX;
      dragged = false;
    });
    window.addEventListener('pointerup', (event) => {
      if (held !== null && !dragged && event.target instanceof Node && view.contains(event.target)) {
        const {x, y} = this.place(event);
        const picked = this.at(x, y);
        if (picked) this.choose(picked);
      }
      held = null;
    });
    view.addEventListener('pointermove', (event) => {
      if (held !== null && Math.abs(event.clientX - held) > 2) {
        dragged = true;
        this.move((held - event.clientX) / Math.max(1, view.clientWidth - this.gutter));
        held = event.clientX;
      }
      const {x, y} = this.place(event);
      this.point(held === null ? this.at(x, y) : null, event);
    });
    view.addEventListener('pointerleave', () => this.point(null));
    view.addEventListener('dblclick', (event) => {
      const {x} = this.place(event);
      this.zoom(1 / zoomStep / zoomStep, this.begin + Math.max(0, x - this.gutter) * this.perPixel);
    });
    for (const button of document.querySelectorAll('[data-do]'))
      button.addEventListener('click', () => {
        const what = button.getAttribute('data-do');
        if (what === 'in') this.zoom(1 / zoomStep, this.focus());
        else if (what === 'out') this.zoom(zoomStep, this.focus());
        else if (what === 'left') this.move(-shortStep);
        else if (what === 'right') this.move(shortStep);
        else this.show(this.home, this.last);
      });
    window.addEventListener('beforeprint', () => this.setWhole(true));
    window.addEventListener('afterprint', () => this.setWhole(false));
  }

  /** The chosen act stays where it is when the view zooms. @returns {number | undefined} */
  focus() {
    if (!this.picked) return undefined;
    const {row, index} = this.picked;
    const middle = (row.start[index] + row.end[index]) / 2;
    return middle >= this.begin && middle <= this.end ? middle : undefined;
  }

  /** @param {boolean} whole */
  setWhole(whole) {
    this.whole = whole;
    this.draw();
  }

  /** @param {MouseEvent} event */
  place(event) {
    const box = this.view.getBoundingClientRect();
    return {x: event.clientX - box.left - this.view.clientLeft, y: event.clientY - box.top - this.view.clientTop};
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
      this.tip.replaceChildren(descriptionList(this.describe(pointed)));
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
    const width = view.clientWidth, height = this.whole ? Math.min(this.height, mostPaper) :
      Math.min(view.clientHeight, this.height);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.height = height + 'px';
    byId('timeline-space').style.height = Math.max(0, this.height - height) + 'px';
    const context = canvas.getContext('2d', {alpha: false});
    if (!context) return;
    const colours = themeColours();
    context.scale(ratio, ratio);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, height);
    const scroll = this.whole ? 0 : view.scrollTop;
    const fills = this.data.kinds.map((kind) => canvasFill(context, styleOf(kind), ratio));
    context.textBaseline = 'middle';
    for (const row of this.rows) {
      const y = row.top - scroll;
      if (y + rowHeight >= axisHeight && y <= height) this.drawRow(context, row, y, width, fills, colours);
    }
    this.drawMark(context, this.picked, scroll, colours.ink);
    this.drawMark(context, this.pointed, scroll, colours.ink);
    this.drawScale(context, width, height, colours);
    this.drawTitles(context, width, height, scroll, colours);
    this.drawAxis(context, width, colours);
    byId('timeline-range').textContent = `${momentText(this.begin * this.data.tick_s)} to ` +
      `${momentText(this.end * this.data.tick_s)} of the step`;
    view.dataset.begin = String(this.begin);
    view.dataset.end = String(this.end);
    view.dataset.drawMs = String(performance.now() - began);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {Row} row @param {number} y @param {number} width
   * @param {(string | CanvasPattern)[]} fills @param {Colours} colours
   */
  drawRow(context, row, y, width, fills, colours) {
    this.fill(row);
    const {gutter, perPixel, begin, end} = this;
    const actors = this.data.programs[this.data.classes[row.cls].program].actors;
    context.fillStyle = colours.quiet;
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
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
    let i = Math.max(0, lastFrom(row.start, begin, row.count));
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
      const whole = this.nameOf(this.data.classes[row.cls].program, row.actor[act]);
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
    for (const {title, top} of this.titles) {
      const y = top - scroll;
      if (y + titleHeight < axisHeight || y > height) continue;
      context.fillStyle = colours.page;
      context.fillRect(0, y, width, titleHeight);
      context.fillStyle = colours.ink;
      context.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(title, 6, y + titleHeight / 2 + 2);
    }
  }

  /** @param {number} width @returns {{x: number, text: string}[]} labels of the axis */
  labels(width) {
    const {gutter, perPixel, begin, end} = this;
    const seconds = this.data.tick_s, wanted = 110;  // pixels between labels
    const step = niceStep(wanted * perPixel * seconds);
    const all = [];
    for (let n = Math.ceil((begin * seconds) / step); n * step <= end * seconds; ++n) {
      const x = gutter + ((n * step) / seconds - begin) / perPixel;
      if (x < width) all.push({x, text: axisText(n * step, step, end * seconds)});
    }
    return all;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @param {Colours} colours */
  drawScale(context, width, height, colours) {
    context.fillStyle = colours.line;
    context.fillRect(this.gutter - 1, 0, 1, height);
    context.globalAlpha = 0.35;
    for (const {x} of this.labels(width)) context.fillRect(x, axisHeight, 1, height - axisHeight);
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {number} width @param {Colours} colours */
  drawAxis(context, width, colours) {
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, axisHeight);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    for (const {x, text} of this.labels(width)) {
      const room = context.measureText(text).width;
      context.fillStyle = colours.line;
      context.fillRect(x, axisHeight - 6, 1, 6);
      context.fillStyle = colours.ink;
      if (x + room / 2 < width) context.fillText(text, x - room / 2, axisHeight / 2 - 2);
    }
    context.fillStyle = colours.line;
    context.fillRect(0, axisHeight - 1, width, 1);
  }
}

/** @param {Row} row */
function sortRow(row) {
  const order = Array.from({length: row.count}, (_, i) => i).sort((a, b) => row.start[a] - row.start[b]);
  for (const column of /** @type {('start' | 'end' | 'actor' | 'run')[]} */ (['start', 'end', 'actor', 'run'])) {
    const before = row[column];
    row[column] = Int32Array.from(order, (i) => before[i]);
  }
}

/** The last place of an ascending list whose value is at most `value`; -1: none. */
/** @param {Int32Array} list @param {number} value @param {number} count */
function lastFrom(list, value, count) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** 1, 2 or 5 times a power of ten, at least `least`. @param {number} least */
function niceStep(least) {
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  for (const times of [1, 2, 5]) if (times * power >= least) return times * power;
  return 10 * power;
}

/** A time on an axis with labels `step` apart, up to `most`, in s. */
/** @param {number} seconds @param {number} step @param {number} most */
function axisText(seconds, step, most) {
  const [factor, unit] = most >= 1 ? [1, 's'] : most >= 1e-3 ? [1e3, 'ms'] : [1e6, 'us'];
  const decimals = Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9));
  const value = (seconds * factor).toFixed(decimals);
  return (Number(value) === 0 ? '0' : value) + ' ' + unit;
}

/** @param {[string, string][]} lines */
function descriptionList(lines) {
  const list = element('dl', {class: 'act'});
  for (const [name, text] of lines) list.append(element('dt', {}, name), element('dd', {}, text));
  return list;
}

/** @typedef {{page: string, ink: string, quiet: string, line: string, idle: string}} Colours */
/** @returns {Colours} */
function themeColours() {
  const computed = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const read = (name) => computed.getPropertyValue(name).trim();
  return {page: read('--page'), ink: read('--ink'), quiet: read('--quiet'), line: read('--line'), idle: read('--idle')};
}

// Memory.

function showMemory() {
  const kinds = Object.keys(memoryStyles);
  fillLegend(byId('memory-legend'), kinds.map((kind) => memoryStyles[kind]));
  const scale = /** @type {HTMLInputElement} */ (byId('memory-scale'));
  scale.addEventListener('change', drawMemory);
  drawMemory();
  const limit = report.memory.limit_bytes;
  const rows = report.stages.map((stage) => [
    stage.name, String(stage.gpus), shortList(stage.layers) || '-', stage.mesh || '-', String(stage.in_flight),
    bytesText(stage.peak_memory_bytes), percent(stage.peak_memory_bytes / limit),
    ...kinds.map((kind) => bytesText(stage.memory_bytes[kind])),
    secondsText(stage.busy_s), percent(stage.bubble_fraction), secondsText(stage.exposed_comm_s)]);
  byId('memory-table').append(table(
    ['stage', '#GPUs', 'layers', 'mesh', '#in flight', '#peak', '#of limit', ...kinds.map((kind) => '#' + kind), '#busy',
      '#idle', '#exposed'],
    rows, {caption: `One device of each stage, limit ${bytesText(limit)}. In flight: micro-batches that there is room for.`}));
}

/** "0, 4, 8, 12" by its ends where it is long. @param {string} text */
function shortList(text) {
  const most = 16;  // letters
  if (text.length <= most) return text;
  return text.slice(0, text.indexOf(',')) + ' ... ' + text.slice(text.lastIndexOf(' ') + 1);
}

function drawMemory() {
  const toLimit = /** @type {HTMLInputElement} */ (byId('memory-scale')).checked;
  const {windows, unit_bytes: unit, limit_bytes: limit, stages} = report.memory;
  const kinds = Object.keys(memoryStyles).filter((kind) => stages.length > 0 && kind in stages[0].held);
  /** @param {number} peak */
  const roundUp = (peak) => {
    const step = niceStep(peak / 4);
    return Math.ceil(peak / step) * step;
  };
  let most = 0;
  const peaks = stages.map((stage) => {
    let peak = 0;
    for (let w = 0; w < windows; ++w)
      peak = Math.max(peak, kinds.reduce((sum, kind) => sum + stage.held[kind][w], 0) * unit);
    most = Math.max(most, peak);
    return peak;
  });
  const top = toLimit ? Math.max(roundUp(most), limit * 1.04) : roundUp(Math.max(most, 1));
  const width = 300, height = 150, left = 52, bottom = 18, head = 8;
  const charts = byId('memory-charts');
  charts.replaceChildren();
  const step = report.timeline.step_ticks * report.timeline.tick_s;
  stages.forEach((stage, s) => {
    const program = report.timeline.programs[report.timeline.classes[stage.class].program];
    /** @param {number} w */
    const x = (w) => left + ((width - left - 6) * w) / windows;
    /** @param {number} bytes */
    const y = (bytes) => head + (height - head - bottom) * (1 - bytes / top);
    const defs = drawing('defs', {});
    const svg = drawing('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
      'aria-label': `${program.name}: at most ${bytesText(peaks[s])} in registers, limit ${bytesText(limit)}`}, defs);
    const below = new Float64Array(windows);
    for (const kind of kinds) {
      const id = `memory-${s}-${kind}`;
      defs.append(svgPattern(id, memoryStyles[kind]));
      const lower = steps(below, x, y);
      for (let w = 0; w < windows; ++w) below[w] += stage.held[kind][w] * unit;
      const path = [...steps(below, x, y), ...lower.reverse()].map((point) => point.join()).join(' ');
      svg.append(drawing('polygon', {points: path, fill: `url(#${id})`}));
    }
    const gap = niceStep(top / 5);
    for (let n = 0; n * gap <= top; ++n)
      svg.append(drawing('text', {class: 'quiet', x: left - 5, y: y(n * gap) + 4, 'text-anchor': 'end'}, bytesText(n * gap)));
    svg.append(drawing('path', {class: 'axis', d: `M${left},${head} V${height - bottom} H${width - 6}`}),
      drawing('text', {class: 'quiet', x: left, y: height - 4}, '0 s'),
      drawing('text', {class: 'quiet', x: width - 6, y: height - 4, 'text-anchor': 'end'}, secondsText(step)));
    if (limit <= top) {
      svg.append(drawing('path', {class: 'limit', d: `M${left},${y(limit).toFixed(1)} H${width - 6}`}),
        drawing('text', {x: width - 8, y: y(limit) + 13, 'text-anchor': 'end'}, `limit ${bytesText(limit)}`));
    }
    charts.append(element('figure', {}, element('figcaption', {}, `${program.name}, at most ${bytesText(peaks[s])} held`), svg));
  });
}

/**
 * The corners of a curve of steps, one value for each window.
 * @param {Float64Array} values @param {(window: number) => number} x @param {(bytes: number) => number} y
 * @returns {[string, string][]}
 */
function steps(values, x, y) {
  /** @type {[string, string][]} */
  const corners = [];
  for (let w = 0; w < values.length; ++w) {
    if (w > 0 && values[w] === values[w - 1]) continue;
    const here = x(w).toFixed(1);
    if (w > 0) corners.push([here, y(values[w - 1]).toFixed(1)]);
    corners.push([here, y(values[w]).toFixed(1)]);
  }
  corners.push([x(values.length).toFixed(1), y(values[values.length - 1]).toFixed(1)]);
  return corners;
}

// Communication.

function showLinks() {
  const select = /** @type {HTMLSelectElement} */ (byId('link-stage'));
  const stages = [...new Set(report.links.map((link) => link.stage))];
  for (const stage of stages) select.append(element('option', {}, stage));
  const draw = () => {
    const rows = report.links.filter((link) => link.stage === select.value);
    const most = Math.max(report.result.step_time_s, ...rows.map((link) => link.simulated_s));
    byId('links').replaceChildren(rows.length === 0 ? element('p', {}, 'Nothing is moved.') : table(
      ['link', '#bytes/s, one way', 'what', 'over', '#acts', '#bytes', '#alone', '#simulated', '#of the step', 'as a bar'],
      rows.map((link) => [link.link,
        link.link_bandwidth_bytes_per_s > 0 ? bytesText(link.link_bandwidth_bytes_per_s) + '/s' : '-',
        styleOf(link.what).label, link.over || '-', String(link.acts), bytesText(link.bytes), secondsText(link.alone_s),
        secondsText(link.simulated_s), percent(link.simulated_s / report.result.step_time_s),
        bar(link.simulated_s, most, styleOf(link.what).colour)]),
      {caption: `One device of ${select.value || 'the plan'}. The bar's frame is the step, ` +
        `${secondsText(report.result.step_time_s)}.`}));
  };
  select.addEventListener('change', draw);
  draw();
  byId('communications').append(report.communications.length === 0 ? element('p', {}, 'Nothing is moved.') : table(
    ['#a step', '#bytes', '#acts', 'stage', 'over', 'what', 'why'],
    report.communications.map((c) => [secondsText(c.s), bytesText(c.bytes), String(c.acts), c.stage, c.over || '-',
      element('code', {}, c.name), c.why])));
}

// Layouts.

/** "0-3, 8" @param {string} text @param {number} device */
function holds(text, device) {
  return text.split(', ').some((part) => {
    const [from, to] = part.split('-').map(Number);
    return device >= from && device <= (to === undefined ? from : to);
  });
}

/** @param {string} text "0-3, 8" */
function countDevices(text) {
  return text.split(', ').reduce((sum, part) => {
    const [from, to] = part.split('-').map(Number);
    return sum + (to === undefined ? 1 : to - from + 1);
  }, 0);
}

/**
 * The two axes that are drawn, down and across: those that are split into most parts, else the last two.
 * @param {LaidTensor} tensor
 */
function drawnAxes(tensor) {
  const parts = tensor.shape.map((_, axis) => new Set(tensor.ranges.map((range) => range[axis][0])).size);
  const order = parts.map((_, axis) => axis).sort((a, b) => parts[b] - parts[a] || b - a);
  return order.slice(0, 2).sort((a, b) => a - b);
}

/** @param {LaidTensor} tensor @param {number} device */
function drawTensor(tensor, device) {
  const width = 240, height = 110;
  const partial = tensor.layout.some((part) => part.includes('P('));
  const axes = drawnAxes(tensor);
  const down = axes.length > 1 ? axes[0] : -1, across = axes.length > 1 ? axes[1] : axes.length ? axes[0] : -1;
  const svg = drawing('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `${tensor.name} in ${tensor.blocks} blocks, ${tensor.layout.join(', ')}`});
  const hatch = 'partial-' + tensor.name;
  if (partial)
    svg.append(drawing('defs', {}, drawing('pattern', {id: hatch, width: tileSize, height: tileSize,
      patternUnits: 'userSpaceOnUse'}, drawing('path', {class: 'axis', d: tilePaths.falling}))));
  const boxes = new Map();
  tensor.ranges.forEach((ranges, b) => {
    /** @param {number} axis @param {number} size */
    const span = (axis, size) => axis < 0 ? [0, size] :
      [(size * ranges[axis][0]) / tensor.shape[axis], (size * ranges[axis][1]) / tensor.shape[axis]];
    const [x0, x1] = span(across, width - 2), [y0, y1] = span(down, height - 2);
    const key = [x0, x1, y0, y1].join();
    const devices = boxes.has(key) ? boxes.get(key).devices + ', ' + tensor.devices[b] : tensor.devices[b];
    boxes.set(key, {x0, x1, y0, y1, devices, ranges});
  });
  const ordered = [...boxes.values()].sort((a, b) => Number(holds(a.devices, device)) - Number(holds(b.devices, device)));
  for (const {x0, x1, y0, y1, devices, ranges} of ordered) {
    const held = holds(devices, device), narrow = Math.min(x1 - x0, y1 - y0) < 4;  // pixels: lines would cover them
    svg.append(drawing('rect', {class: held ? 'block held' : narrow ? 'block narrow' : 'block', x: x0 + 1, y: y0 + 1,
      width: held ? Math.max(3, x1 - x0) : x1 - x0, height: held ? Math.max(3, y1 - y0) : y1 - y0}, drawing('title', {}, `[${ranges.map((/** @type {number[]} */ r) => r.join(':')).join(', ')}] on ` +
      `devices ${devices}`)));
    if (partial)
      svg.append(drawing('rect', {class: 'partial', x: x0 + 1, y: y0 + 1, width: x1 - x0, height: y1 - y0,
        fill: `url(#${hatch})`}));
    const letters = Math.floor((x1 - x0 - 6) / 6.2), count = countDevices(devices);
    const text = [devices, `${parseInt(devices, 10)}, ... (${count})`].find((one) => one.length <= letters) || '';
    if (text && y1 - y0 >= 13)
      svg.append(drawing('text', {...(held ? {class: 'held'} : {}), x: (x0 + x1) / 2 + 1, y: (y0 + y1) / 2 + 5,
        'text-anchor': 'middle'}, text));
  }
  svg.append(drawing('rect', {class: 'outline', x: 1, y: 1, width: width - 2, height: height - 2}));
  const caption = element('figcaption', {}, element('code', {}, tensor.name),
    element('small', {}, `${tensor.role}, ${tensor.type}`),
    element('small', {}, tensor.layout.join(', ') + (partial ? '; each device holds a term of the sum' : '')));
  if (axes.length === 2)
    caption.append(element('small', {}, `down: axis ${axes[0]}, across: axis ${axes[1]}; ${tensor.blocks} ` +
      `block${tensor.blocks === 1 ? '' : 's'}${tensor.ranges.length < tensor.blocks ? `, the first ${tensor.ranges.length} drawn` : ''}`));
  return element('figure', {}, svg, caption);
}

function showLayouts() {
  const place = byId('layout-charts'), layouts = report.layouts;
  if (!layouts || layouts.tensors.length === 0) {
    place.append(element('p', {}, 'The plan says of no job that it was compiled from, so its layouts are not known.'));
    return;
  }
  const mesh = layouts.mesh.map((d) => `${d.name} ${d.devices}`).join(' x ');
  const first = parseInt(layouts.tensors[0].devices[0], 10);
  place.append(element('p', {}, `Layer ${layouts.layer} on stage ${layouts.stage}, mesh ${mesh}. A rectangle is a whole ` +
    'tensor. Its blocks carry the numbers of the devices that hold them. S(n) splits axis n over a dimension of the mesh, ' +
    'B gives each device a copy, P leaves each device a term of a sum. The blocks of one device are filled.'));
  const input = /** @type {HTMLInputElement} */ (element('input', {type: 'number', value: first, min: 0,
    max: report.gpus - 1, id: 'layout-device'}));
  const list = element('div', {class: 'tensors'});
  const draw = () => list.replaceChildren(...layouts.tensors.map((tensor) => drawTensor(tensor, Number(input.value))));
  input.addEventListener('input', draw);
  draw();
  place.append(element('p', {}, element('label', {}, 'Device ', input)), list);
  if (layouts.left_out > 0) place.append(element('p', {class: 'note'}, `${layouts.left_out} more tensors are left out.`));
}

// Candidates, sensitivity, errors, configuration.

function showCandidates() {
  const place = byId('candidate-table');
  if (report.candidates.length === 0) {
    place.append(element('p', {}, 'The plan names no other candidates: it is not the result of a search.'));
    return;
  }
  place.append(table(['candidate', 'compared with this plan', 'flags'],
    [['this plan', secondsText(report.result.step_time_s), ''],
      ...report.candidates.map((c, i) => [String(i + 1), c.compared, element('code', {}, c.flags)])],
    {used: (row) => row === 0, caption: 'The best other plans that the search simulated.'}));
}

function showSensitivity() {
  const place = byId('sensitivity-table'), rows = report.sensitivity;
  if (!rows) {
    place.append(element('p', {}, 'Left out (--no-sensitivity).'));
    return;
  }
  const step = report.result.step_time_s;
  /** @param {number | null} seconds */
  const change = (seconds) => (seconds === null ? 0 : Math.abs(seconds / step - 1));
  const sorted = [...rows].sort((a, b) =>
    Math.max(change(b.half_step_s), change(b.double_step_s)) - Math.max(change(a.half_step_s), change(a.double_step_s)));
  const most = Math.max(0.01, ...rows.map((row) => Math.max(change(row.half_step_s), change(row.double_step_s))));
  const width = 320, height = 26, middle = width / 2;
  /** @param {Sensitive} row */
  const bars = (row) => {
    const svg = drawing('svg', {width, height, 'aria-hidden': 'true'});
    const half = style('#e69f00', '#000000', 'rising', 'half'), twice = style('#0072b2', '#ffffff', 'solid', 'twice');
    const defs = drawing('defs', {}, svgPattern('half-' + row.name, half));
    svg.append(defs);
    /** @param {number | null} seconds @param {number} y @param {string} fill */
    const one = (seconds, y, fill) => {
      if (seconds === null) return;
      const to = middle + ((middle - 4) * (seconds / step - 1)) / most;
      svg.append(drawing('rect', {x: Math.min(middle, to), y, width: Math.max(1, Math.abs(to - middle)), height: 10, fill}));
    };
    one(row.half_step_s, 2, `url(#half-${row.name})`);
    one(row.double_step_s, 14, twice.colour);
    svg.append(drawing('path', {class: 'axis', d: `M${middle},0 V${height}`}));
    return svg;
  };
  /** @param {number | null} seconds */
  const text = (seconds) => {
    if (seconds === null) return 'out of bounds';
    const growth = (100 * (seconds / step - 1)).toFixed(1);
    return `${secondsText(seconds)} (${Number(growth) === 0 ? '0.0' : (seconds > step ? '+' : '') + growth} %)`;
  };
  place.append(table(['constant', 'what it is', '#step with 0.5x', '#step with 2x', 'above 0.5x, hatched; below 2x, solid'],
    sorted.map((row) => [element('code', {}, row.name), row.what, text(row.half_step_s), text(row.double_step_s), bars(row)]),
    {caption: `The same plan, simulated with one constant of the cluster otherwise. The line in the middle is the step, ` +
      `${secondsText(step)}; right of it is slower. A bar's whole half is ${percent(most)}.`}));
}

function showErrors() {
  byId('error-text').textContent = report.errors.text[0].toUpperCase() + report.errors.text.slice(1) + '.';
  const rows = report.errors.rows, step = report.result.step_time_s;
  const least = Math.min(...rows.map((row) => row.step_time_range_s[0]));
  const most = Math.max(...rows.map((row) => row.step_time_range_s[1]));
  const width = 320, height = 18, pad = 6;
  /** @param {number} seconds */
  const x = (seconds) => pad + ((width - 2 * pad) * (seconds - least)) / Math.max(most - least, 1e-12);
  /** @param {ErrorRow} row */
  const interval = (row) => {
    const [from, to] = row.step_time_range_s.map(x), y = height / 2;
    return drawing('svg', {width, height, 'aria-hidden': 'true'},
      drawing('path', {class: 'axis', d: `M${x(step)},0 V${height}`}),
      drawing('path', {d: `M${from},${y} H${to} M${from},${y - 5} v10 M${to},${y - 5} v10`, stroke: '#0072b2',
        'stroke-width': row.used ? 4 : 2, fill: 'none'}));
  };
  byId('error-table').append(table(
    ['framework', 'device', '#GPUs', '#published steps', '#within', '#step from', '#to', 'as an interval', ''],
    rows.map((row) => [row.framework, row.device, row.least_gpus > 1 ? 'more than 8' : '1 to 8', String(row.published_steps),
      percent(row.share), secondsText(row.step_time_range_s[0]), secondsText(row.step_time_range_s[1]), interval(row),
      row.used ? "this step's bar" : '']),
    {used: (row) => rows[row].used, caption: 'The rows of published runs that are nearest to the job. Nine of ten published ' +
      `steps lie in the interval that a row gives. The line is the simulated step, ${secondsText(step)}.`}));
}

function showConfiguration() {
  /** @type {Map<string, string[][]>} */
  const sections = new Map();
  for (const [path, value] of Object.entries(report.result.configuration)) {
    const dot = path.indexOf('.'), section = path.slice(0, dot);
    if (path.startsWith('search.runner_up.')) continue;
    const rows = sections.get(section) || [];
    rows.push([path.slice(dot + 1), value]);
    sections.set(section, rows);
  }
  for (const [section, rows] of sections)
    byId('configuration-tables').append(table(['key', 'value'], rows, {caption: section}));
}

/** @param {Timeline} timeline */
function listenToTheme(timeline) {
  const key = 'boxcar-report-theme';
  /** @param {string} theme */
  const apply = (theme) => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    timeline.redraw();
  };
  for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('input[name=theme]'))) {
    input.addEventListener('change', () => {
      apply(input.value);
      try {
        localStorage.setItem(key, input.value);
      } catch {  // a browser may forbid it to files
      }
    });
    try {
      if (localStorage.getItem(key) === input.value) {
        input.checked = true;
        apply(input.value);
      }
    } catch {  // likewise
    }
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.redraw());
}

const ordered = Object.keys(kindStyles).filter((kind) => report.timeline.kinds.includes(kind));
const others = report.timeline.kinds.filter((kind) => !(kind in kindStyles));
showVerdict();
fillLegend(byId('timeline-legend'), [...ordered, ...others].map(styleOf));
listenToTheme(new Timeline(report.timeline));
showMemory();
showLinks();
showLayouts();
showCandidates();
showSensitivity();
showErrors();
showConfiguration();
document.documentElement.dataset.ready = (performance.now() - began).toFixed(0);  // ms, all drawn
