"""Figures 2, 6, 7 and 9: actors, their registers and their messages. Plans are written by hand, each act with its seconds, and simulated."""
import json
import os
import re
import statistics

from fidelity.families.dlperf import RESNET50

from .. import draw
from ..figure import Figure, Result, Row, published
from ..program import Failed, ask, first_clause, in_processes
from .training import throughput_rows


def plan_text(name, micro_batches, queues, registers, actors, memory=0):
    """A plan of one device: queues and registers as lines without their mark, actors in the order of their queues."""
    lines = [f"plan {name}", "devices 1", f"micro_batches {micro_batches}", *([f"fact memory_limit_bytes = {memory}"] if memory else []),
             "label cluster.preset = dgx-1-v100-16g", "class 0: p", "", "program p", *([f"  arena {memory}"] if memory else []), "  phases F0",
             f"  schedule F0[0-{micro_batches - 1}]", *(f"  queue {q}" for q in queues), *(f"  %{r}" for r in registers),
             *(f"  {a}" for a in actors)]
    return "\n".join(lines) + "\n"


def simulated(folder, name, text, *flags):
    """Simulates a plan's text: the command, and its answer."""
    plan = folder / f"{name}.plan"
    plan.write_text(text)
    command = ("simulate", "--plan", os.path.relpath(plan), *flags)
    return command, ask(*command, "--json")


def acts_of(trace):
    """(actor, act, start, end) in seconds."""
    events = json.loads(trace.read_text())["traceEvents"]
    return [(e["name"], e["args"]["act"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in events if e["ph"] == "X"]


def first_step(folder, name, text):
    """Simulates a plan that starts empty: the command, and its acts."""
    trace = folder / f"{name}.trace.json"
    command, answer = simulated(folder, name, text, "--steps", "1", "--trace", os.path.relpath(trace))
    answer.expect_done()
    return command, acts_of(trace)


# Figure 2. 400 bytes: M1 and M2 have filled 100 each. Of the rest O2's output takes 100, and O1's, 200 bytes, also needs M2's place.
# So O1 waits for O2, which reads it (m2_free), and M2 for the reader of O1's output (o1_free).
FIGURE2 = ["m1: int8[100] x1 activations @0", "m2: int8[100] x1 activations @100", "o1: int8[200] x1 activations @100",
           "o2: int8[100] x1 activations @300", "m2_free: int8[1] x1 activations bytes 0", "o1_free: int8[1] x1 activations bytes 0 initial 1"]
MOVES = ["M1 host test() {seconds=1.0} -> %m1 on copy in F0", "M2 host test(%o1_free) {seconds=1.0} -> %m2 on copy in F0"]
O1 = ["O1 host test(%m1, %m2_free) {seconds=2.0} -> %o1 on compute in F0", "R1 host test(%o1) {seconds=0.5} -> %o1_free on compute in F0"]
O2 = ["O2 host test(%m2) {seconds=1.0} -> %o2, %m2_free on compute in F0"]


def figure2(folder):
    paper = published("fig2")
    orders = {"eager": (O1 + O2, ""), "planned": (O2 + O1, ""), "open": (O1 + O2, " unordered")}
    rows, bars, notes = [], [], []
    for (name, (acts, order)), (what, value) in zip(orders.items(), paper.items()):
        text = plan_text(f"fig2-{name}", 2, ["copy: copy_in" + order, "compute: compute" + order], FIGURE2, MOVES + acts, memory=400)
        trace = folder / f"fig2-{name}.trace.json"
        command, answer = simulated(folder, f"fig2-{name}", text, "--trace", os.path.relpath(trace))
        ours = "ends" if answer.code == 0 else "deadlock" if "would deadlock" in answer.error else answer.why
        rows.append(Row(what, "outcome", value, ours, command=command))
        if answer.code == 0:
            rows.append(Row(f"{what}: step", "s", None, answer.document["step_time_s"], command=command))
            bars += [(f"{queue_of(actor)}, {name}", start, end, actor, ["M1", "M2", "O1", "R1", "O2"].index(actor))
                     for actor, _, start, end in acts_of(trace)]
        else:
            notes.append(answer.error)  # the cycle, in words
    timeline = lambda picture: draw.timeline(draw.panels(picture, ["the two that end, in the same memory"], 1, 6.4, 2.4)[0], bars, "s")
    return Result(rows, timeline, tuple(notes))


def queue_of(actor):
    return "copy" if actor.startswith("M") else "compute"


KINDS = {3: ("copy_in", "compute", "copy_out"), 4: ("disk", "host", "copy_in", "compute")}  # of queues, by the number of actors


def pipeline(name, micro_batches, seconds, slots):
    """Actors a1, a2, ... on queues of their own, each of which reads the previous one; `slots` of each one's register."""
    queues = [f"q{i + 1}: {kind}" for i, kind in enumerate(KINDS[len(seconds)])]
    registers = [f"r{i + 1}: int8[100] x{count} activations" for i, count in enumerate(slots)]
    actors = [f"a{i + 1} host test({f'%r{i}' if i else ''}) {{seconds={float(time)}}} -> %r{i + 1} on q{i + 1} in F0"
              for i, time in enumerate(seconds)]
    return plan_text(name, micro_batches, queues, registers, actors)


def occupancy(acts, actors):
    """By register ri, which ai fills and the next actor reads: (time, slots in use) as steps."""
    begins = {(actor, act): (start, end) for actor, act, start, end in acts}
    curves = {}
    for i in range(1, actors):
        changes = []
        for (actor, act), (start, _) in begins.items():
            if actor == f"a{i}":
                changes += [(start, 1), (begins[f"a{i + 1}", act][1], -1)]
        used, points = 0, [(0.0, 0)]
        for time in sorted({time for time, _ in changes}):
            change = sum(c for t, c in changes if t == time)  # a slot that is given back and taken at once stays in use
            points += [(time, used), (time, used + change)]
            used += change
        curves[f"r{i}"] = points
    return curves


GPT = ("--model=gpt", "--layers=16", "--hidden=1536", "--heads=16", "--seq=2048", "--vocab=50257", "--cluster=dgx-1-v100-16g", "--gpus=4",
       "--pp=4", "--micro-batch=1", "--global-batch=16", "--precision=fp16")


def computed_slots(folder):
    """By stage: the slots that the planner gives an activation that waits for the backward pass, the first norm of a layer."""
    plan = folder / "fig6-gpt.plan"
    ask("simulate", *GPT, "--save-plan", os.path.relpath(plan)).expect_done()
    programs = plan.read_text().split("\nprogram ")[1:]
    return [int(re.search(r"%h\d+\.ln1: .* x(\d+) activations", program)[1]) for program in programs]


def in_flight(most):
    """For --schedule: four stages, of which the first keeps at most this many micro-batches."""
    return ",".join(str(min(most, 4 - stage)) for stage in range(4)) if most <= 4 else ",".join(str(most - stage) for stage in range(4))


ACTS = 12  # of each actor, in a step


def by_registers(folder):
    """Three actors of a second each: rate and memory by the slots of each register."""
    rows = []
    for slots in (1, 2, 3, 4):
        command, answer = simulated(folder, f"fig6-{slots}", pipeline(f"fig6-{slots}", ACTS, (1, 1, 1), (slots,) * 3))
        name, found = f"three actors of 1 s, {slots} slots each", answer.document
        rows += [Row(name, "acts/s", None, ACTS / found["step_time_s"], command=command),
                 Row(name, "bytes in use", None, float(found["held_memory_bytes"][0]), command=command)]
    return rows


def by_flight():
    """A GPT on four stages: (micro-batches in flight on the first, its row of samples/s, of GB)."""
    found = []
    for most in (1, 2, 3, 4, 6, 8):
        name, command = f"GPT on 4 stages, {in_flight(most)} micro-batches in flight", ("simulate", *GPT, f"--schedule={in_flight(most)}")
        document = ask(*command, "--json").document
        found.append((most, Row(name, "samples/s", None, document["samples_per_s"], command=command),
                      Row(name, "peak GB", None, max(document["peak_memory_bytes"]) / 1e9, command=command)))
    return found


def figure6(folder):
    command, acts = first_step(folder, "fig6", pipeline("fig6", 3, (1, 1, 1), (3, 2, 2)))
    rows = [Row(what, "acts", value, " ".join(sorted(actor for actor, _, start, _ in acts if round(start) == i)), command=command)
            for i, (what, value) in enumerate(published("fig6").items())]
    command, pressed = first_step(folder, "fig6-pressure", pipeline("fig6-pressure", ACTS, (1, 1, 3), (3, 2, 2)))
    curves = occupancy(pressed, 3)
    rows += [Row(f"{register} of a1 and a2 before an actor of 3 s, most slots in use", "slots", None, float(max(used for _, used in points)),
                 command=command) for register, points in curves.items()]
    slots, flights = computed_slots(folder), by_flight()
    rows += by_registers(folder) + [Row(f"GPT on 4 stages, stage {stage}, slots that are computed", "slots", None, float(count),
                                        command=("simulate", *GPT)) for stage, count in enumerate(slots)]
    rows += [row for _, *both in flights for row in both]

    def picture(sheet):
        along = f"micro-batches in flight on the first stage (computed: {slots[0]})"
        axes = draw.panels(sheet, ["Figure 6: three actors, 3, 2 and 2 registers", "back pressure: a3 takes 3 s", "GPT on four stages: throughput",
                                   "GPT on four stages: memory"])
        draw.timeline(axes[0], [(actor, start, end, str(act + 1), int(actor[1]) - 1) for actor, act, start, end in acts], "s")
        draw.lines(axes[1], curves, "s", "slots in use")
        draw.lines(axes[2], {"": [(n, rate.ours) for n, rate, _ in flights]}, along, "samples/s")
        draw.lines(axes[3], {"": [(n, peak.ours) for n, _, peak in flights]}, along, "GB")

    return Result(rows, picture)


TRAINED = ("train", "--model=gpt", "--layers=4", "--hidden=32", "--heads=2", "--seq=32", "--vocab=64", "--data=random", "--pp=2", "--dp=1",
           "--micro-batch=1", "--global-batch=32", "--steps=5")
ROUTES = ("on the same thread", "to another thread", "to another process")


def routes_of(trace):
    """Microseconds from the end of an act to the start of the next one of its queue, and to that of the pull by which another device fetches."""
    events = json.loads(trace.read_text())["traceEvents"]
    queues = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    acts = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["pid"], e["tid"], e["ts"]))
    near = [b["ts"] - a["ts"] - a["dur"] for a, b in zip(acts, acts[1:])
            if (a["pid"], a["tid"]) == (b["pid"], b["tid"]) and queues[a["pid"], a["tid"]] == "compute"]
    begins = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    far = [end["ts"] - begins[i]["ts"] for i, end in ends.items() if end["pid"] != begins[i]["pid"]]
    return near, far


def figure7(folder):
    """A small model on two stages, trained in one process and in two: the time between two acts is the message's, and a thread's waking."""
    trace = folder / "fig7.trace.json"
    command = (*TRAINED, "--trace", os.path.relpath(trace))
    rows = []

    def add(route, times):
        for what, value in (("least", min(times)), ("median", statistics.median(times))):
            rows.append(Row(route, f"us, {what}", None, value, command=command))

    ask(*command).expect_done()
    near, far = routes_of(trace)
    add(ROUTES[0], near)
    add(ROUTES[1], far)
    done = in_processes(2, command)
    if done is None or done.returncode != 0:
        why = "mpirun is not installed" if done is None else first_clause(done.stderr.strip())
        rows.append(Row(ROUTES[2], "us, median", None, None, why))
    else:
        add(ROUTES[2], routes_of(trace)[1])

    def picture(sheet):
        axis = draw.panels(sheet, ["from act to act, measured: median, and least as a point"], 1, 5)[0]
        known = [route for route in ROUTES if any(r.name == route and r.ours is not None for r in rows)]
        for i, route in enumerate(known):
            least, median = (r.ours for r in rows if r.name == route)
            colour, hatch, marker = draw.look(i)
            axis.bar(i, median, 0.6, color=colour, hatch=hatch, edgecolor="#333333", alpha=0.45)
            axis.plot(i, least, marker, color=colour, markeredgecolor="black")
        axis.set_xticks(range(len(known)), known)
        axis.set_yscale("log")
        axis.set_ylabel("us")

    return Result(rows, picture)


BATCH, STEPS = 256, 16  # images; batches that are read in a step
PREPARED = (0.75, 1, 1.25, 1.5, 2)  # how many images are read, and how many decoded, while the device takes one
ENOUGH = 1.25  # from which on loading counts as hidden


def figure9(folder):
    """Reading, decoding, copying and computing as four actors; the step's length is that of the job on one device, simulated too."""
    rows = throughput_rows(RESNET50, lambda row: row["model"] == "ResNet50-v1.5" and row["framework"] == "OneFlow" and row["precision"] == "AMP"
                           and int(row["n_gpus"]) <= 8, lambda row: ("ResNet-50 in half, OneFlow", row["n_gpus"], "OneFlow"))
    rate = rows[0].ours
    if rate is None:
        raise Failed(rows[0].why_not)
    compute, copy = BATCH / rate, BATCH * 3 * 224 * 224 * 2 / 12e9  # seconds; half, by PCIe 3 x16
    curves = {}

    def add(series, prepared, share, command, said=None):
        rows.append(Row(f"{series}, {prepared:g} prepared for each that is taken", "of the rate without loading", said, share, command=command))
        curves.setdefault(series, []).append((prepared, share))

    for slots in (1, 2):
        for prepared in PREPARED:
            times = (compute / prepared, compute / prepared, copy, compute)
            command, answer = simulated(folder, f"fig9-{slots}-{prepared:g}", pipeline("fig9", STEPS, times, (slots,) * 4))
            said = float(published("fig9")["two registers"]) if slots == 2 and prepared == ENOUGH else None
            add(f"four actors, {slots} slots each", prepared, STEPS * compute / answer.document["step_time_s"], command, said)
    for prepared in PREPARED:
        command = (*rows[0].command, "--what-if", f"node.load_rate={prepared * rate:.0f}")
        add("the job itself, one actor that loads", prepared, ask(*command, "--json").document["samples_per_s"] / rate, command)

    def picture(sheet):
        axes = draw.panels(sheet, ["ResNet-50 in half, OneFlow", "loading as actors, one device"])
        draw.panel(axes[0], rows[:2], ["OneFlow"], ["OneFlow"])
        axes[0].set_xlabel("V100s")
        axes[0].set_ylabel("images/s")
        draw.lines(axes[1], curves, "images prepared for each that is taken", "of the rate without loading")
        draw.legend(sheet, ["OneFlow"])

    return Result(rows, picture)


FIGURES = [
    Figure("fig2", "O1 and O2 share a device's memory", figure2, quick=True,
           missing=("a hang in simulated time: a plan that deadlocks is refused before it is simulated, with the cycle",)),
    Figure("fig6", "pipelining and back pressure", figure6),
    Figure("fig7", "from one actor to another: measured on this machine", figure7, measured=True,
           missing=("the message alone: times include the waking of a thread that waits, and other programs of the machine",)),
    Figure("fig9", "loading data as actors", figure9, tolerance={"samples/s": 10, "of the rate without loading": 5},
           missing=("the paper's bars: no numbers are published; the rows on one and eight devices are DLPerf's, with data, and that hosts prepared "
                    "a quarter more than was taken is assumed",
                    "PyTorch's and TensorFlow's loaders and DALI: how many images a second they prepare is not published")),
]
