"""Tables 1 to 4, Figures 4 and 5: layouts and routes, as `boxcar sbp` derives them."""
import os
import re
import subprocess

from ..figure import Figure, Result, Row, published
from ..program import ask, beside

ELEMENT = 4  # bytes of a float32


def rules(op, *shapes):
    """Layouts of the results by those of the operands, one mesh dimension of two devices."""
    document = ask("sbp", "rules", op, *shapes, "--devices", "2", "--json").document
    return {", ".join(rule["inputs"]): ", ".join(rule["outputs"]) for rule in document["rules"]}


def route(shape, begin, end, from_devices, to_devices):
    """The arguments and the document."""
    arguments = ("sbp", "box", "--shape", shape, "--from", begin, "--to", end, "--from-devices", from_devices, "--to-devices", to_devices)
    return arguments, ask(*arguments, "--json").document


def elements(formula, p1, p2, size):
    """The value of a formula of Table 2; formulas are our own, and trusted."""
    return float(eval(formula, {"__builtins__": {}}, {"p1": p1, "p2": p2, "T": size}))


def table1(_):
    paper, ours = published("table1"), rules("matmul", "4x6", "6x8")
    command = ("sbp", "rules", "matmul", "4x6", "6x8", "--devices", "2")
    return Result([Row(what, "layout of X W", paper.get(what, "no rule"), ours.get(what, "no rule"), command=command)
                   for what in dict.fromkeys([*paper, *ours])])


def table2(_):
    p1, p2, rows = 4, 3, 12
    found = []
    for what, formula in published("table2").items():
        begin, end, where = re.fullmatch(r"(\S+) to (\S+), (same|other) devices", what).groups()
        arguments, document = route(f"{rows}x{rows}", begin, end, f"0-{p1 - 1}", f"0-{p1 - 1}" if where == "same" else f"{p1}-{p1 + p2 - 1}")
        found.append(Row(f"{what}: {formula}", "elements moved", elements(formula, p1, p2, rows * rows), document["bytes_moved"] / ELEMENT,
                         command=arguments))
    return Result(found)


def table3(_):
    command = ("sbp", "rules", "matmul", "4x6", "6x8", "--devices", "2x2")
    layouts = {}
    for rule in ask(*command, "--json").document["rules"]:
        x, w, y = (f"({', '.join(layout)})" for layout in rule["inputs"] + rule["outputs"])
        layouts[f"{x}, {w}"] = y
    return Result([Row(what, "layout of X W", value, layouts.get(what, "not legal"), command=command)
                   for what, value in published("table3").items()])


def layout_of(part, whole):
    """The layout of parts on two devices: S(axis) if an axis is halved."""
    halved = [axis for axis, (p, w) in enumerate(zip(part, whole)) if 2 * p == w]
    return f"S({halved[0]})" if halved else "B"


def table4(folder):
    program = beside("docs/examples/two_products")
    paper = published("table4")
    if program is None:
        return Result([Row(what, "layout", value, None, "build/docs/examples/two_products is not built") for what, value in paper.items()])
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    plan = folder / "table4.plan"
    plan.write_text(text[text.index("\nplan ") + 1:text.index("\nY2 on device ")])
    numbers = {device: set(values.split()) for device, values in re.findall(r"^Y2 on device (\d): (.*)$", text, re.MULTILINE)}
    shape_of = lambda name, after: tuple(map(int, re.search(rf"%{re.escape(name)}: float32\[(\d+), (\d+)\]", text[text.index(after):]).groups()))
    ours = {"Y0 on devices 0-1": layout_of(shape_of("Y0", "program devices0-1"), shape_of("Y0", "graph ")),
            "Y0 on devices 2-3": layout_of(shape_of("Y0.concat", "program devices2-3"), shape_of("Y0", "graph ")),
            "Y2 on devices 2-3": layout_of(shape_of("Y2", "program devices2-3"), shape_of("Y2", "graph "))}
    command = ("simulate", "--plan", os.path.relpath(plan), "--cluster", "dgx-1-v100-16g")
    step = ask(*command, "--json").document["step_time_s"] * 1e6
    return Result([Row(what, "layout", value, ours[what]) for what, value in paper.items()]
                  + [Row(f"Y2 on device {device}, run on the CPU", "its numbers", None, ", ".join(sorted(values))) for device, values in numbers.items()]
                  + [Row("a step of two micro-batches on four V100s", "us", None, step, command=command)])


TENSOR = ((1, 2), (3, 4))  # of Figure 4


def block_text(block):
    (top, bottom), (left, right) = block
    return ", ".join(str(list(row[left:right])) for row in TENSOR[top:bottom])


def figure4(_):
    paper, found, blocks = published("fig4"), {}, {}
    commands = {}
    for layout in ("S(0)", "S(1)", "B", "P"):
        arguments, document = route("2x2", layout, "B", "0-1", "0-1")
        for device in ("0", "1"):
            block = document["holds"][device][0]["block"]
            blocks[layout, device] = block
            found[f"{layout}, device {device}"] = block_text(block)
            commands[f"{layout}, device {device}"] = arguments
        if layout == "P":
            found["P, each device"] = "the whole shape" if all(blocks["P", d] == [[0, 2], [0, 2]] for d in "01") else "a part"
            found["P, together"] = document["steps"][0].get("reduction", "none")
            commands["P, each device"] = commands["P, together"] = arguments

    def draw(picture):
        picture.set_size_inches(6.4, 1.9)
        axes = picture.subplots(1, 8)
        for axis, ((layout, device), ((top, bottom), (left, right))) in zip(axes, blocks.items()):
            axis.axis("off")
            axis.set_xlim(-0.1, 2.1)
            axis.set_ylim(2.1, -0.1)
            axis.set_aspect("equal")
            axis.set_title(f"{layout}\ndevice {device}")
            for row in (0, 1):
                for column in (0, 1):
                    inside = top <= row < bottom and left <= column < right
                    axis.add_patch(rectangle(column, row, inside, layout == "P"))
                    text = "" if not inside else "+" if layout == "P" else str(TENSOR[row][column])
                    axis.text(column + 0.5, row + 0.5, text, ha="center", va="center")

    return Result([Row(what, "entries", value, found.get(what), command=commands.get(what, ())) for what, value in paper.items()], draw)


def rectangle(x, y, filled, partial):
    from matplotlib.patches import Rectangle
    return Rectangle((x, y), 1, 1, facecolor="#0072b2" if filled else "white", alpha=0.35 if filled else 1, edgecolor="#333333",
                     hatch="///" if filled and partial else None)


def figure5(_):
    paper = published("fig5")
    here, there = (route("4x8", "S(0)", "B", "0-1", devices) for devices in ("0-1", "2-3"))
    step = there[1]["steps"][0]
    fetched = step["collective"] == "transfer" and all(s["to"] in (2, 3) for s in step["slices"])
    ours = dict(zip(paper, (here[1]["steps"][0]["collective"], "fetched by the consumers" if fetched else step["collective"])))
    expected = elements(published("table2")["S(0) to B, other devices"], 2, 2, 4 * 8)

    def draw(picture):
        picture.set_size_inches(4.2, 2.2)
        axis = picture.subplots()
        axis.axis("off")
        axis.set_xlim(-0.6, 2.6)
        axis.set_ylim(-0.6, 1.6)
        for device in range(4):
            axis.text(2 * (device // 2), 1 - device % 2, f"device {device}\nY0 {'S(0)' if device < 2 else 'B'}", ha="center", va="center",
                      bbox={"boxstyle": "round", "facecolor": "#cfe3f1", "edgecolor": "#333333"})
        for s in step["slices"]:
            begin, end = (0.4, 1 - s["from"]), (1.6, 1 - (s["to"] - 2))
            axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": "#333333"})
            axis.text(0.7, begin[1] + 0.25 * (end[1] - begin[1]), f"{s['bytes']} B", ha="center", va="center", fontsize=7,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})

    rows = [Row(what, "boxing", value, ours[what], command=(here if what.endswith("same devices") else there)[0]) for what, value in paper.items()]
    rows.append(Row("p2 T of Table 2", "elements moved", expected, there[1]["bytes_moved"] / ELEMENT, command=there[0]))
    return Result(rows, draw)


FIGURES = [
    Figure("table1", "layouts under which a matrix product may run", table1, quick=True),
    Figure("table2", "elements that move between two layouts, from 4 devices to the same or to 3 others", table2, quick=True),
    Figure("table3", "layouts of a product on a mesh of two dimensions", table3, quick=True),
    Figure("table4", "two products on four devices, planned, simulated and run on the CPU", table4, quick=True),
    Figure("fig4", "a 2 x 2 tensor on two devices", figure4, quick=True),
    Figure("fig5", "the boxing between two products", figure5, quick=True),
]
