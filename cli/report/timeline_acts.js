// The acts of the timeline: columns of each queue, names, and what an act waits for.

/**
 * The acts of one queue of one class, by start.
 * Its columns are filled when it is first looked at.
 * @typedef {{cls: number, queue: number, title: string, top: number, height: number, runs: number[], filled: boolean,
 *   count: number, start: Int32Array, end: Int32Array, actor: Int32Array, run: Int32Array}} Row
 * @typedef {{row: Row, index: number}} Picked
 * @typedef {{end: number, text: string}} Cause
 */

const axisHeight = 22, titleHeight = 22, rowHeight = 18, rowGap = 2;  // pixels
const leastSpan = 50;  // ticks that the view shows at least

class Acts {
  /** @param {TimelineColumns} data */
  constructor(data) {
    this.data = data;
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
}

/** @param {Row} row */
function sortRow(row) {
  const order = Array.from({length: row.count}, (_, i) => i).sort((a, b) => row.start[a] - row.start[b]);
  for (const column of /** @type {('start' | 'end' | 'actor' | 'run')[]} */ (['start', 'end', 'actor', 'run'])) {
    const before = row[column];
    row[column] = Int32Array.from(order, (i) => before[i]);
  }
}
