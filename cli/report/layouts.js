// Layouts: tensors of a layer, each as its blocks with the devices that hold them.

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
  const svg = make('svg:svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `${tensor.name} in ${tensor.blocks} blocks, ${tensor.layout.join(', ')}`});
  const hatch = 'partial-' + tensor.name;
  if (partial)
    svg.append(make('svg:defs', {}, make('svg:pattern', {id: hatch, width: tileSize, height: tileSize,
      patternUnits: 'userSpaceOnUse'}, make('svg:path', {class: 'axis', d: tilePaths.falling}))));
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
    svg.append(make('svg:rect', {class: held ? 'block held' : narrow ? 'block narrow' : 'block', x: x0 + 1, y: y0 + 1,
      width: held ? Math.max(3, x1 - x0) : x1 - x0, height: held ? Math.max(3, y1 - y0) : y1 - y0}, make('svg:title', {}, `[${ranges.map((/** @type {number[]} */ r) => r.join(':')).join(', ')}] on ` +
      `devices ${devices}`)));
    if (partial)
      svg.append(make('svg:rect', {class: 'partial', x: x0 + 1, y: y0 + 1, width: x1 - x0, height: y1 - y0,
        fill: `url(#${hatch})`}));
    const letters = Math.floor((x1 - x0 - 6) / 6.2), count = countDevices(devices);
    const text = [devices, `${parseInt(devices, 10)}, ... (${count})`].find((one) => one.length <= letters) || '';
    if (text && y1 - y0 >= 13)
      svg.append(make('svg:text', {...(held ? {class: 'held'} : {}), x: (x0 + x1) / 2 + 1, y: (y0 + y1) / 2 + 5,
        'text-anchor': 'middle'}, text));
  }
  svg.append(make('svg:rect', {class: 'outline', x: 1, y: 1, width: width - 2, height: height - 2}));
  const caption = make('figcaption', {}, make('code', {}, tensor.name),
    make('small', {}, `${tensor.role}, ${tensor.type}`),
    make('small', {}, tensor.layout.join(', ') + (partial ? '; each device holds a term of the sum' : '')));
  if (axes.length === 2)
    caption.append(make('small', {}, `down: axis ${axes[0]}, across: axis ${axes[1]}; ${tensor.blocks} ` +
      `block${tensor.blocks === 1 ? '' : 's'}${tensor.ranges.length < tensor.blocks ? `, the first ${tensor.ranges.length} drawn` : ''}`));
  return make('figure', {}, svg, caption);
}

function showLayouts() {
  const place = byId('layout-charts'), layouts = report.layouts;
  if (!layouts || layouts.tensors.length === 0) {
    place.append(make('p', {}, 'The plan says of no job that it was compiled from, so its layouts are not known.'));
    return;
  }
  const mesh = layouts.mesh.map((d) => `${d.name} ${d.devices}`).join(' x ');
  const first = parseInt(layouts.tensors[0].devices[0], 10);
  place.append(make('p', {}, `Layer ${layouts.layer} on stage ${layouts.stage}, mesh ${mesh}. A rectangle is a whole ` +
    'tensor. Its blocks carry the numbers of the devices that hold them. S(n) splits axis n over a dimension of the mesh, ' +
    'B gives each device a copy, P leaves each device a term of a sum. The blocks of one device are filled.'));
  const input = /** @type {HTMLInputElement} */ (make('input', {type: 'number', value: first, min: 0,
    max: report.gpus - 1, id: 'layout-device'}));
  const list = make('div', {class: 'tensors'});
  const draw = () => list.replaceChildren(...layouts.tensors.map((tensor) => drawTensor(tensor, Number(input.value))));
  input.addEventListener('input', draw);
  draw();
  place.append(make('p', {}, make('label', {}, 'Device ', input)), list);
  if (layouts.left_out > 0) place.append(make('p', {class: 'note'}, `${layouts.left_out} more tensors are left out.`));
}
