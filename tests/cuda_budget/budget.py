#!/usr/bin/env python3
"""The time that the CUDA backend's own kernels need in steps of GPT-2, Llama and ResNet-50, by counting instructions.

    budget.py --launches build/tests/cuda_launches [--nvcc nvcc] [--folder build/cuda_budget] [--write]

Each kernel is compiled to PTX, and a few threads of each launch are executed (ptx.py). Its time is the largest of

    bytes     bytes that it moves, in whole sectors of 32 bytes, at 3.35 TB/s
    cache     the same and reads by several blocks, at 1.5 times that rate
    waiting   the same, if loads in flight in a multiprocessor's threads do not cover the memory's latency
    units     instructions by unit (issue, whole numbers, special functions, float64) at the clock of 1.755 GHz

and the ratio is that over the bytes' time of the op: each operand once. Data sheet of the H100 SXM:
https://resources.nvidia.com/en-us-hopper-architecture/nvidia-h100-tensor-c. Latency: twice the 479 cycles
that arXiv:2402.13499 measured of an idle memory. --write puts the table into docs/gpu-design.md.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import ptx  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MULTIPROCESSORS, CLOCK, BANDWIDTH, LATENCY = 132, 1.755e9, 3.35e12, 958
CACHE = 1.5  # times the memory's rate: an assumption, on the low side
SMALL = 2e-6  # seconds of an op whose launch takes longer than its bytes; such ops are not judged
AIM = 1.5


def plain(name):
    """A kernel's key without namespaces and parameters."""
    return re.sub(r"boxcar::backends::cuda::|A::", "", name.split("(")[0])


def demangle(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def key(demangled):
    """What both compilers call a kernel alike."""
    name = re.sub(r"_GLOBAL__N__\w+|\(anonymous namespace\)", "A", demangled)
    return re.sub(r"\s+|^void", "", name)


# Files that hold no kernel of these steps where cuDNN is used, compiled last.
RARE = {"attention", "experts", "images", "map", "moves", "rows", "update"}


class Compiled:
    """Kernels by key, with PTX, registers, stack and shared memory. Files are compiled until all wanted are found."""

    def __init__(self, nvcc, folder, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted((SOURCE / "backends/cuda/kernels").glob("*.cu"))
        self.kernels = {}
        for group in ([f for f in files if f.stem not in RARE], [f for f in files if f.stem in RARE]):
            if wanted <= self.kernels.keys():
                break
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for text, report in pool.map(lambda f: self.compile(nvcc, f, folder), group):
                    self.add(text, report)

    def add(self, text, report):
        module = ptx.Module(text)
        names = demangle(list(module.kernels))
        resources = self.resources(report)
        for name, kernel in module.kernels.items():
            self.kernels[key(names[name])] = (kernel, module.shared, resources[name])

    @staticmethod
    def compile(nvcc, file, folder):
        """PTX and the assembler's report, kept in the folder until a source changes."""
        sources = [file, *sorted(file.parent.glob("*.cuh")), *sorted(file.parent.glob("*.h")), *sorted((SOURCE / "ir/ops").glob("*rows.h"))]
        stamp = hashlib.sha256(b"".join(f.read_bytes() for f in sources) + release(nvcc).encode()).hexdigest()
        out, kept = folder / (file.stem + ".ptx"), folder / (file.stem + ".json")
        if kept.exists() and (known := json.loads(kept.read_text()))["stamp"] == stamp:
            return out.read_text(), known["report"]
        flags = ["-std=c++17", "-O3", "-arch=sm_90", f"-I{SOURCE}"]
        subprocess.run([nvcc, *flags, "-ptx", "-o", out, file], check=True, capture_output=True, text=True)
        ptxas = pathlib.Path(shutil.which(nvcc)).with_name("ptxas")
        done = subprocess.run([ptxas, "-arch=sm_90", "-v", "-o", "/dev/null", out], check=True, capture_output=True, text=True)
        kept.write_text(json.dumps({"stamp": stamp, "report": done.stderr}))
        return out.read_text(), done.stderr

    @staticmethod
    def resources(report):
        result, name = {}, None
        for line in report.splitlines():
            if found := re.search(r"Compiling entry function '(\S+)'", line):
                name = found[1]
                result[name] = {"stack": 0, "spills": 0, "registers": 0, "shared": 0}
            if name and (found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line)):
                result[name]["stack"], result[name]["spills"] = int(found[1]), int(found[2])
            if name and (found := re.search(r"Used (\d+) registers", line)):
                result[name]["registers"] = int(found[1])
                shared = re.search(r"(\d+) bytes smem", line)
                result[name]["shared"] = int(shared[1]) if shared else 0
        return result


@functools.cache
def release(nvcc):
    text = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"release ([\d.]+)", text)[1]


def addresses_of(program):
    """Keys by address less main's."""
    lines = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split(" ", 2) for line in lines if len(line.split(" ", 2)) == 3 and line[0] != " "]
    main = next(int(at, 16) for at, kind, name in symbols if name == "main")
    return {int(at, 16) - main: key(name) for at, kind, name in symbols if kind in "tTwWuV"}


def moved(first, second, others=()):
    """Bytes of a thread's accesses, from those of two neighbouring lanes: (from the memory, from caches). What lanes
    far apart do not use of a sector of 32 bytes is moved all the same, unless the thread's own next accesses use it.
    Loads from the addresses that threads of other blocks (`others`) load from as well come from caches."""
    memory = cached = 0
    alike = len(first.accesses) == len(second.accesses)
    same = [{(line, at) for at, _, load, line in other.accesses if load} for other in others]
    recent = []
    for n, (address, width, load, line) in enumerate(first.accesses):
        apart = abs(second.accesses[n][0] - address) if alike else width
        cost = max(width, min(apart, 32)) if apart else width / 32
        if cost > width:
            sector = (address // 32, load)
            cost = 0 if sector in recent else 32
            recent = [*recent[-15:], sector]
        if load and same and all((line, address) in other for other in same):
            cached += cost
        else:
            memory += cost
    return memory, cached


def tokens(index, extent):
    """Indices from all over a table, at `index`."""
    return lambda address: (address - index) // 8 * 7919 % extent


def lists(arguments, grid):
    """Tables' gradients: every row has two indices, and half as many rows occur as there are indices."""
    occur, _, counts, starts, filled, rows, items = struct.unpack("<7Q", arguments[1][:56])

    def words(address):
        if address == occur:
            return grid[0] // 2 + 1
        if counts <= address < filled:
            return 2
        if address >= items:
            return (address - items) // 4 * 7919 % grid[0]
        if address >= rows:
            return (address - rows) // 4
        return 2 * ((address - starts) // 4) if address >= starts else 0

    return words


# Contents of memory on which a kernel's work depends.
WORDS = {"gather_units": lambda arguments, grid: tokens(*struct.unpack("<Q", arguments[0][16:24]), 32000),
         "sum_row_vectors": lists}


def launch_time(kernel, shared, resources, launch):
    """(seconds, what limits it, facts) of one launch."""
    grid, block = launch["grid"], launch["block"]
    arguments = [bytes.fromhex(a) for a in launch["arguments"]]
    blocks = grid[0] * grid[1]
    chosen = sorted({(0, 0), (grid[0] // 2, grid[1] // 2), (grid[0] * 3 // 4, grid[1] // 3)})
    warps = sorted({0, block // 32 // 3, block // 32 * 2 // 3, block // 32 - 1})
    words = next((make(arguments, grid) for name, make in WORDS.items() if name in kernel.name), lambda address: 0)
    pairs = {(at, warp): [kernel.run(arguments, grid, block, at, 32 * warp + lane, shared, words) for lane in (0, 1)]
             for at in chosen for warp in warps}
    counts = [pair[0] for pair in pairs.values()]
    bytes_of = [moved(*pair, [pairs[other, warp][0] for other in chosen if other != at]) for (at, warp), pair in pairs.items()]
    n = len(counts)
    threads = blocks * block
    times = {unit: threads * sum(c.units[unit] for c in counts) / n / rate / MULTIPROCESSORS / CLOCK
             for unit, rate in ptx.UNITS.items()}
    memory, cached = (threads * sum(b[i] for b in bytes_of) / n for i in (0, 1))
    times["bytes"] = memory / BANDWIDTH
    times["cache"] = (memory + cached) / BANDWIDTH / CACHE
    resident = min(2048, 65536 // max(1, (resources["registers"] + 7) // 8 * 8) // block * block, 32 * block,
                   227 * 1024 // max(1, resources["shared"] + 1024) * block, max(1, threads / MULTIPROCESSORS))
    in_flight = resident * max(c.most_in_flight for c in counts)
    needed = LATENCY / CLOCK * BANDWIDTH / MULTIPROCESSORS
    if any(c.most_in_flight for c in counts) and in_flight < needed and threads >= MULTIPROCESSORS * block:
        times["waiting"] = times["bytes"] * needed / in_flight
    by_width = {}
    for c in counts:
        for _, width, _, _ in c.accesses:
            by_width[width] = by_width.get(width, 0) + width
    limit = max(times, key=times.get)
    return times[limit], limit, {
        "divisions": max(c.divisions for c in counts), "divisions64": max(c.divisions64 for c in counts),
        "local": max(c.local for c in counts), "calls": max(c.calls for c in counts),
        "width": max(by_width, key=by_width.get) if by_width else 0, "issued": sum(c.issued for c in counts) / n, **resources}


def rows_of(nvcc, folder, program):
    """A row for each call."""
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    calls = [call for call in map(json.loads, output.splitlines()) if call["way"] == "own kernels"]
    names, known, rows = addresses_of(program), {}, []
    wanted = {names[launch["kernel"]] for call in calls for launch in call["launches"] if "kernel" in launch}
    compiled = Compiled(nvcc, folder, wanted)
    for call in calls:
        seconds, kernels, bound = 0, [], ""
        for launch in call["launches"]:
            if "set" in launch:
                time, limit, facts = launch["set"] / BANDWIDTH, "bytes", {"moved": launch["set"], "width": 16}
                name = "memset"
            else:
                name = names[launch["kernel"]]
                same = (name, json.dumps(launch))
                if same not in known:
                    known[same] = launch_time(*compiled.kernels[name], launch)
                time, limit, facts = known[same]
                name = plain(name)
            seconds += time
            kernels.append((name, time, limit, facts))
        least = call["bytes"] / BANDWIDTH
        rows.append({**call, "least": least, "seconds": seconds, "ratio": seconds / least if least else 0,
                     "kernels": kernels, "judged": least >= SMALL})
    return rows


def largest(rows):
    best = {}
    for row in rows:
        same = (row["job"], row["op"])
        if same not in best or row["bytes"] > best[same]["bytes"]:
            best[same] = row
    return list(best.values())


def short(name):
    """layer_norm's norm_vectors<bf16, 3, 32>"""
    name = name.replace("__nv_bfloat16", "bf16").replace("unsigned", "u").replace("A::", "")
    return re.sub(r",(?=\S)", ", ", name)


TABLE = ["<!-- tests/cuda_budget: begin -->", "<!-- tests/cuda_budget: end -->"]
PAGE = SOURCE / "docs/gpu-design.md"


def text_of(nvcc, rows):
    """The table of gpu-design.md."""
    lines = [TABLE[0], f"Counted with CUDA {release(nvcc)}.", "", "| step | op | MB | bytes' time, us | by count, us | ratio | limit | kernels |",
             "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |"]
    for row in sorted((r for r in largest(rows) if r["judged"]), key=lambda r: (r["job"], -r["bytes"])):
        longest = max(row["kernels"], key=lambda k: k[1])
        names = list(dict.fromkeys(short(k[0]) for k in row["kernels"]))
        lines.append(f"| {row['job']} | {row['op']} | {1e-6 * row['bytes']:.1f} | {1e6 * row['least']:.1f} | "
                     f"{1e6 * row['seconds']:.1f} | {row['ratio']:.2f} | {longest[2]} | {', '.join(f'`{n}`' for n in names)} |")
    return "\n".join([*lines, TABLE[1]])


def page_table():
    text = PAGE.read_text()
    return text[text.index(TABLE[0]):text.index(TABLE[1]) + len(TABLE[1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", required=True)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/cuda_budget"))
    parser.add_argument("--all", action="store_true", help="every call, not the largest of each op")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = rows_of(args.nvcc, args.folder, args.launches)
    if args.write:
        text = PAGE.read_text()
        PAGE.write_text(text.replace(page_table(), text_of(args.nvcc, rows)))
        return
    for row in sorted(rows if args.all else largest(rows), key=lambda r: (r["job"], -r["bytes"])):
        print(f"{row['job']:14}{row['op']:24}{1e-6 * row['bytes']:9.1f} MB {1e6 * row['least']:8.1f} us {1e6 * row['seconds']:9.1f} us "
              f"{row['ratio']:7.2f}{' ' if row['judged'] else '-'} {len(row['launches'])}")
        for name, time, limit, f in row["kernels"][:4]:
            print(f"    {short(name):44}{1e6 * time:9.1f} us by {limit:8} {f['width']} bytes, {f.get('divisions', 0)} divisions, "
                  f"{f.get('registers', 0)} registers, {f.get('stack', 0)} stack, {f.get('issued', 0):.0f} issued")


if __name__ == "__main__":
    main()
