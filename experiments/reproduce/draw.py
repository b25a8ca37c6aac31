"""Pictures, all in one style: colours that the colour-blind tell apart (Okabe and Ito 2008), and hatches and markers for print without colour.

Needs matplotlib (Debian: python3-matplotlib); without it there are no pictures.
"""
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"]
HATCHES = ["///", "\\\\\\", "|||", "xx", "---", "++", "//", "\\\\"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
STYLE = {"svg.hashsalt": "boxcar", "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif", "axes.spines.top": False,
         "axes.spines.right": False, "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#dddddd", "axes.axisbelow": True,
         "legend.frameon": False, "hatch.linewidth": 0.5}


def look(number):
    """Colour, hatch and marker of a series; the first 64 differ."""
    return COLOURS[number % 8], HATCHES[(number + number // 8 * 3) % 8], MARKERS[(number + number // 8 * 3) % 8]


def matplotlib():
    """The module, or None if it is not installed."""
    try:
        import matplotlib as module
        module.use("Agg")
        return module
    except ImportError:
        return None


def save(draw, path):
    """True if the picture was drawn."""
    module = matplotlib()
    if module is None:
        return False
    from matplotlib.figure import Figure
    with module.rc_context(STYLE):
        picture = Figure(layout="constrained")
        draw(picture)
        picture.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return True


def panels(picture, names, columns=2, width=4.2, height=2.6):
    columns = min(columns, len(names))
    count = -(-len(names) // columns)
    picture.set_size_inches(width * columns, height * count)
    axes = picture.subplots(count, columns, squeeze=False).flatten()
    for axis in axes[len(names):]:
        axis.set_visible(False)
    for axis, name in zip(axes, names):
        axis.set_title(name)
    return axes[:len(names)]


def compared(rows, unit, along="", columns=2):
    """A drawing of rows by panel, place (`along` the axis) and series: bars are published, points are ours."""
    rows = [r for r in rows if r.panel]
    series = list(dict.fromkeys(r.series for r in rows))

    def draw(picture):
        names = list(dict.fromkeys(r.panel for r in rows))
        for axis, name in zip(panels(picture, names, columns), names):
            here = [r for r in rows if r.panel == name]
            panel(axis, here, [s for s in series if any(r.series == s for r in here)], series)
            axis.set_ylabel(of_panel(unit, name))
            axis.set_xlabel(of_panel(along, name))
        legend(picture, series)

    return draw


def of_panel(text, name):
    """One text for all panels, or one for each."""
    return text[name] if isinstance(text, dict) else text


def panel(axis, rows, here, series):
    places = list(dict.fromkeys(r.x for r in rows))
    width = 0.8 / len(here)
    for row in rows:
        if isinstance(row.published, str) or isinstance(row.ours, str):
            continue
        colour, hatch, marker = look(series.index(row.series))
        at = places.index(row.x) + (here.index(row.series) - (len(here) - 1) / 2) * width
        if row.published is not None:
            axis.bar(at, row.published, width, color=colour, alpha=0.45, hatch=hatch, edgecolor="#333333", linewidth=0.4)
        if row.ours is not None:
            axis.plot(at, row.ours, marker, color=colour, markersize=4, markeredgecolor="black", markeredgewidth=0.7)
    axis.set_ylim(bottom=0)
    long = sum(len(p) for p in places) > 45
    axis.set_xticks(range(len(places)), places, rotation=40 if long else 0, ha="right" if long else "center")


def legend(picture, series):
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    handles = []
    for i, name in enumerate(series):
        colour, hatch, _ = look(i)
        handles.append(Patch(facecolor=colour, alpha=0.45, hatch=hatch, edgecolor="#333333", label=name))
    handles.append(Patch(facecolor="white", edgecolor="#333333", label="bar: published"))
    handles.append(Line2D([], [], linestyle="", marker="o", color="white", markeredgecolor="black", label="point: ours"))
    picture.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=min(5, len(handles)))


def lines(axis, curves, x_label, y_label):
    """`curves`: points (x, y) by label."""
    for i, (label, points) in enumerate(curves.items()):
        colour, _, marker = look(i)
        stepped = len({x for x, _ in points}) < len(points)  # up and down at one place
        axis.plot(*zip(*points), color=colour, marker="" if stepped else marker, markersize=4, linewidth=1.2, linestyle=["-", "--", "-.", ":"][i % 4],
                  label=label)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.set_ylim(bottom=0)
    if len(curves) > 1:
        axis.legend()


def timeline(axis, bars, x_label):
    """`bars`: (row, start, end, text, colour's number); rows in the order in which they come, from the top."""
    names = list(dict.fromkeys(bar[0] for bar in bars))
    for name, start, end, text, number in bars:
        colour, hatch, _ = look(number)
        axis.barh(names.index(name), end - start, left=start, height=0.7, color=colour, alpha=0.6, edgecolor="#333333", linewidth=0.5, hatch=hatch)
        axis.text((start + end) / 2, names.index(name), text, ha="center", va="center", fontsize=7,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8})
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.grid(axis="x")
    axis.set_xlabel(x_label)
