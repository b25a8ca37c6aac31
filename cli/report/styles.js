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
  return make('svg:pattern', {id, width: tileSize, height: tileSize, patternUnits: 'userSpaceOnUse'},
    make('svg:rect', {width: tileSize, height: tileSize, fill: s.colour}),
    make('svg:path', {d: tilePaths[s.pattern], stroke: patternInk, fill: 'none'}));
}

/** @param {Style} s */
function swatch(s) {
  const id = 'swatch-' + s.label.replace(/\W/g, '-');
  return make('svg:svg', {width: 22, height: 14, 'aria-hidden': 'true'}, make('svg:defs', {}, svgPattern(id, s)),
    make('svg:rect', {width: 22, height: 14, fill: `url(#${id})`}));
}

/** @param {HTMLElement} list @param {Style[]} styles */
function fillLegend(list, styles) {
  for (const s of styles) list.append(make('li', {}, swatch(s), s.label));
}


/** Fills by kind as patterns of one drawing: "url(#...)". @param {Element} svg @param {string} name @param {[string, Style][]} styles */
function svgFills(svg, name, styles) {
  svg.append(make('svg:defs', {}, ...styles.map(([kind, s]) => svgPattern(`${name}-${kind}`, s))));
  return d3.scaleOrdinal(styles.map(([kind]) => kind), styles.map(([kind]) => `url(#${name}-${kind})`));
}

/** @typedef {{page: string, ink: string, quiet: string, line: string, idle: string}} Colours */
/** Of the theme, for the canvas. @returns {Colours} */
function themeColours() {
  const computed = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const read = (name) => computed.getPropertyValue(name).trim();
  return {page: read('--page'), ink: read('--ink'), quiet: read('--quiet'), line: read('--line'), idle: read('--idle')};
}
