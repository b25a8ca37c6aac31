"""Predicted times against measured ones, as an SVG picture: one dot a row, both axes logarithmic, 10 % bands beside the diagonal."""
import math

SIZE, LEFT, BOTTOM, TOP = 420, 60, 44, 26


def bounds(values):
    low, high = min(values), max(values)
    return low / 1.15, high * 1.15


def ticks(low, high):
    """1, 2 and 5 times powers of ten inside; fewer if those are too many."""
    found = [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
             if low <= m * 10.0**e <= high]
    return found if len(found) <= 9 else [t for t in found if f"{t:e}"[0] == "1"]


def svg(title, points, unit):
    """`points`: (published, simulated)."""
    low, high = bounds([v for point in points for v in point])
    span = SIZE - LEFT - 14
    scale = span / math.log(high / low)
    x = lambda v: LEFT + scale * math.log(v / low)
    y = lambda v: SIZE - BOTTOM - scale * math.log(v / low)
    height, right = SIZE, LEFT + span
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{SIZE}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="{TOP - 10}" font-size="13">{title}</text>']
    for t in ticks(low, high):
        out.append(f'<path d="M{x(t):.1f} {y(low):.1f}V{y(high):.1f}M{x(low):.1f} {y(t):.1f}H{x(high):.1f}" stroke="#eee"/>')
        out.append(f'<text x="{x(t):.1f}" y="{SIZE - BOTTOM + 14}" text-anchor="middle">{t:g}</text>')
        out.append(f'<text x="{LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>')
    for factor, style in ((1, 'stroke="#888"'), (1.1, 'stroke="#bbb" stroke-dasharray="4 3"'), (1 / 1.1, 'stroke="#bbb" stroke-dasharray="4 3"')):
        a, b = max(low, low / factor), min(high, high / factor)
        out.append(f'<path d="M{x(a):.1f} {y(a * factor):.1f}L{x(b):.1f} {y(b * factor):.1f}" {style} fill="none"/>')
    out += [f'<circle cx="{x(p):.1f}" cy="{y(s):.1f}" r="2.6" fill="#2a6fb0" fill-opacity="0.55"/>' for p, s in points]
    out.append(f'<rect x="{LEFT}" y="{y(high):.1f}" width="{right - LEFT}" height="{y(low) - y(high):.1f}" fill="none" stroke="#888"/>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{SIZE - 8}" text-anchor="middle">published, {unit}</text>')
    out.append(f'<text x="14" y="{SIZE / 2}" text-anchor="middle" transform="rotate(-90 14 {SIZE / 2})">simulated, {unit}</text></svg>')
    return "\n".join(out) + "\n"


def plot(comparison, folder):
    """FOLDER/fidelity-FAMILY.svg of the family's first quantity that is a number; None if there is none."""
    for quantity, unit, factor in (("step_s", "s", 1), ("activation_bytes", "GB", 1e-9)):
        points = [(r.case.published * factor, r.simulated * factor) for r in comparison.of(quantity) if r.simulated is not None]
        if points:
            path = folder / f"fidelity-{comparison.family.name}.svg"
            path.write_text(svg(comparison.family.name, points, unit))
            return path
    return None
