"""Counts a kernel's instructions: a thread of a launch, executed in PTX.

    module = Module(open("rows.ptx").read())
    count = module.kernels[name].run([bytes.fromhex(a) for a in arguments], grid, block, block_at, thread_at)
    count.issued, count.bytes, count.accesses ...

A thread is alone: a shuffle returns its own value, a vote returns its own, barriers pass. Memory that it has
not written itself reads as zeros, or as `words` says. Functions that PTX calls (powers, large angles) count CALL instructions and
return zero.

Weights: a PTX instruction is as many machine instructions (of sm_90) as WEIGHTS says, estimates for those that the
assembler expands. Rates of units, for a multiprocessor and cycle:
https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions (compute capability 9.0).
"""

import math
import re
import struct

PARAM, SHARED, LOCAL = 1 << 60, 1 << 61, 1 << 62
CALL = 120
MASK = {8: 0xFF, 16: 0xFFFF, 32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}
# The first that fits. 0: the assembler folds it into others.
WEIGHTS = [
    (r"(mov|cvta|ld\.param|st\.param|pragma)", 0),
    (r"cvt\.(u64\.u32|s64\.s32|u32\.u64|u16\.u32|u32\.u16|s32\.s16|u64\.u16|u32\.u8)", 0.5),
    (r"(div|rem)\.(s64|u64)", 80),
    (r"(div|rem)\.(s32|u32)", 20),
    (r"div\.rn\.f32", 10),
    (r"div\.(full|approx)", 3),
    (r"div\.rn\.f64", 30),
    (r"(sqrt|rcp)\.rn\.f64", 25),
    (r"(sqrt|rcp)\.rn\.f32", 8),
    (r"mul\.lo\.(s64|u64|b64)", 4),
    (r"mad\.lo\.(s64|u64)", 4),
    (r"mul\.hi\.(s64|u64)", 8),
    (r"(add|sub|and|or|xor|not|selp|neg|abs|max|min)\.(s64|u64|b64)", 2),
    (r"(shl|shr)\.(b64|s64|u64)", 2),
    (r"setp(\.\w+)?\.(s64|u64)", 2),
    (r"", 1),
]
# By unit, in instructions of a thread for each cycle of a multiprocessor.
UNITS = {"issue": 128, "integer": 64, "special": 16, "double": 64}
SPECIAL = re.compile(r"(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\.approx|div\.|rcp\.rn|sqrt\.rn")
DOUBLE = re.compile(r"(?!ld|st|mov|cvta).*\.f64")
INTEGER = re.compile(
    r"(add|sub|min|max|abs|neg|addc|subc|sad)(\.cc)?\.[subp]\d+|(and|or|xor|not|shl|shr|shf|prmt|lop3|bfe|bfi|popc|clz)\."
    r"|setp|selp|cvt\.rn\.(b?f16)|cvt\.rz?i|cvt\.rn\.f32\.[su]|cvt\.f32\.b?f16|bfind|brev")


def weight_of(op):
    return next(weight for pattern, weight in WEIGHTS if re.match(pattern, op))


def as_float(bits, kind):
    if kind == "f32":
        return struct.unpack("<f", struct.pack("<I", bits & MASK[32]))[0]
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits & MASK[64]))[0]
    if kind == "f16":
        return struct.unpack("<e", struct.pack("<H", bits & MASK[16]))[0]
    return struct.unpack("<f", struct.pack("<I", (bits & MASK[16]) << 16))[0]  # bf16


def as_bits(value, kind):
    try:
        if kind == "f32":
            return struct.unpack("<I", struct.pack("<f", value))[0]
        if kind == "f64":
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        if kind == "f16":
            return struct.unpack("<H", struct.pack("<e", value))[0]
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    except OverflowError:
        return {"f32": 0x7F800000, "f64": 0x7FF0000000000000, "f16": 0x7C00}.get(kind, 0x7F80)


def signed(bits, width):
    bits &= MASK[width]
    return bits - (1 << width) if bits >> (width - 1) else bits


def width_of(kind):
    return 16 if kind == "bf16" else 1 if kind == "pred" else int(kind[1:])


class Count:
    """What a thread did: instructions by unit; bytes and (address, width, loads) of accesses to global memory, in order;
    the most bytes of loads that were in flight before one of them was used; divisions by whole numbers; accesses to
    local memory; called functions."""

    def __init__(self):
        self.units = dict.fromkeys(UNITS, 0.0)
        self.accesses, self.most_in_flight, self.in_flight = [], 0, 0
        self.divisions, self.divisions64, self.local, self.calls = 0, 0, 0, 0

    @property
    def issued(self):
        return self.units["issue"]


class Instruction:
    def __init__(self, text, line):
        self.text, self.line = text, line
        self.guard = self.negated = None
        guard = re.match(r"@(!?)(%\w+)\s+", text)
        if guard:
            self.negated, self.guard = guard[1] == "!", guard[2]
            text = text[guard.end():]
        name, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        self.op, self.rest = name.strip(), rest.strip()
        self.parts = self.op.split(".")
        self.kind = self.parts[-1]
        self.operands = []
        depth, start = 0, 0
        for i, c in enumerate(self.rest + ","):
            depth += c in "{[(" 
            depth -= c in "}])"
            if c == "," and depth == 0:
                self.operands.append(self.rest[start:i].strip())
                start = i + 1
        self.weight = weight_of(self.op)
        if re.fullmatch(r"mov\.\w+", self.op) and all(re.fullmatch(r"%(r|rd|f|fd|rs|p|h|b)\d+", o) for o in self.operands):
            self.weight = 1  # of registers: where paths meet
        self.charges = [("issue", self.weight)]
        if SPECIAL.match(self.op) and not self.op.endswith("f64"):
            self.charges.append(("special", 1))
        elif DOUBLE.match(self.op):
            self.charges.append(("double", self.weight))
        elif INTEGER.match(self.op):
            self.charges.append(("integer", self.weight))


class Kernel:
    def __init__(self, name, params, body):
        self.name, self.params = name, params
        self.code, self.labels, self.tables, self.shared, self.depot = [], {}, {}, {}, 0
        shared_at = SHARED
        for statement in re.sub(r"//[^\n]*", "", body).split(";"):
            statement = re.sub(r"\s+", " ", statement).lstrip("{} ").rstrip()
            while label := re.match(r"([$\w]+):\s*", statement):
                self.labels[label[1]] = len(self.code)
                statement = statement[label.end():].lstrip("{} ")
                if targets := re.match(r"\.branchtargets\s*(.*)", statement, re.S):
                    self.tables[label[1]] = [t.strip() for t in targets[1].split(",")]
                    statement = ""
            if not statement or statement in "{}" or statement.startswith(".reg") or statement.startswith(".pragma"):
                continue
            if local := re.match(r"\.local.*\[(\d+)\]", statement):
                self.depot = int(local[1])
                continue
            if variable := re.match(r"\.shared.*?([\w$]+)\[(\d+)\]|\.shared.*?([\w$]+)$", statement):
                self.shared[variable[1] or variable[3]] = shared_at
                shared_at += int(variable[2] or 8) + 64
                continue
            if statement.startswith((".param", ".loc", ".file")):
                continue
            self.code.append(Instruction(statement, len(self.code)))

    def run(self, arguments, grid, block, block_at, thread, shared, words=lambda address: 0, most=400_000):
        """One thread's Count. `words`: whole numbers in global memory that the thread has not written."""
        special = {"%tid.x": thread, "%ntid.x": block, "%ctaid.x": block_at[0], "%ctaid.y": block_at[1],
                   "%ctaid.z": 0, "%nctaid.x": grid[0], "%nctaid.y": grid[1], "%nctaid.z": 1, "%tid.y": 0,
                   "%tid.z": 0, "%ntid.y": 1, "%ntid.z": 1, "%laneid": thread % 32, "%warpid": thread // 32}
        addresses = {**shared, **self.shared, "__local_depot": LOCAL}
        memory = {}
        at = PARAM
        for name, data in zip(self.params, arguments):
            addresses[name] = at
            for i, byte in enumerate(data):
                memory[at + i] = byte
            at += 8192
        regs, count, pending = {}, Count(), {}

        def value(operand, kind="b64"):
            if operand in regs:
                if operand in pending:
                    pending.clear()
                    count.in_flight = 0
                return regs[operand]
            if operand[0] == "%":
                return special.get(operand, 0)
            if operand.startswith("0f"):
                bits = int(operand[2:], 16)
                return bits if kind != "f64" else as_bits(as_float(bits, "f32"), "f64")
            if operand.startswith("0d"):
                return int(operand[2:], 16)
            if operand[0] == "-" or operand[0].isdigit():
                return int(operand.rstrip("U"), 0) & MASK[64]
            if operand in addresses:
                return addresses[operand]
            if operand.startswith("__local_depot"):
                return LOCAL
            if operand in ("WARP_SZ",):
                return 32
            return SHARED + (1 << 50)  # a table of constants

        def address(operand):
            inside = operand.strip("[]")
            base, plus, offset = inside.partition("+")
            return value(base.strip()) + (int(offset) if plus else 0)

        def number(operand, kind):
            bits = value(operand, kind)
            if kind in ("f32", "f64", "f16", "bf16"):
                return as_float(bits, kind)
            if kind[0] == "s":
                return signed(bits, int(kind[1:]))
            return bits & MASK[width_of(kind)] if kind != "pred" else bits

        def put(name, result, kind):
            if kind in ("f32", "f64", "f16", "bf16"):
                regs[name] = as_bits(result, kind)
            else:
                regs[name] = int(result) & MASK[width_of(kind)]
            pending.pop(name, None)

        at = steps = 0
        while at < len(self.code):
            i = self.code[at]
            at += 1
            steps += 1
            if steps > most:
                raise RuntimeError(f"{self.name}: more than {most} instructions")
            for unit, weight in i.charges:
                count.units[unit] += weight
            if i.guard and bool(value(i.guard)) == i.negated:
                continue
            name, kind, o = i.parts[0], i.kind, i.operands
            if name == "ret" or name == "exit":
                break
            if name == "bra":
                at = self.labels[o[0]]
            elif name == "brx":
                table = self.tables[o[1]]
                at = self.labels[table[min(value(o[0]), len(table) - 1)]]
            elif name == "call":
                count.calls += 1
                count.units["issue"] += CALL
                if result := re.match(r"\(?(retval\d+)", i.rest):
                    addresses[result[1]] = LOCAL + (1 << 40)
            elif name in ("ld", "ldu", "st", "atom", "red"):
                load = name in ("ld", "ldu", "atom")
                if i.parts[1] == "param" and not (o[0 if name == "st" else 1].strip("[]").split("+")[0] in addresses
                                                  or o[0 if name == "st" else 1].startswith("[%")):
                    if load:
                        put(o[0], 0, kind)
                    continue
                where = address(o[1] if load else o[0])
                if i.parts[1] == "shared":  # of 32 bits
                    where = SHARED | where & MASK[32]
                values = [v.strip() for v in (o[0] if load else o[1]).strip("{}").split(",")]
                size = width_of(kind) // 8
                if where < PARAM:
                    count.accesses.append((where, size * len(values), load, i.line))
                elif where >= LOCAL and i.parts[1] != "param":
                    count.local += 1
                if load:
                    loaded = []
                    for v, register in enumerate(values):
                        here = where + v * size
                        if here < PARAM and here not in memory:
                            bits = words(here) & MASK[8 * size] if kind[0] != "f" else 0
                        else:
                            bits = sum(memory.get(here + b, 0) << (8 * b) for b in range(size))
                        if kind[0] == "s":
                            bits = signed(bits, 8 * size) & MASK[64]
                        regs[register] = bits
                        loaded.append(register)
                    if where < PARAM and name != "atom":
                        for register in loaded:
                            pending[register] = True
                        count.in_flight += size * len(values)
                        count.most_in_flight = max(count.most_in_flight, count.in_flight)
                else:
                    for v, register in enumerate(values):
                        bits = value(register, kind)
                        if where >= PARAM:
                            for b in range(size):
                                memory[where + v * size + b] = bits >> (8 * b) & 0xFF
            elif name in ("bar", "barrier", "membar", "fence", "bfly", "nanosleep", "prefetch", "discard"):
                pass
            elif name == "shfl":
                target = o[0].split("|")[0]
                put(target, value(o[1]), "b32")
            elif name == "vote":
                put(o[0], MASK[32] if value(o[1]) else 0, "b32")
            elif name == "cvta":
                put(o[0], value(o[1]), "b64")
            elif name == "mov":
                if o[0][0] == "{":
                    targets = [t.strip() for t in o[0].strip("{}").split(",")]
                    bits, width = value(o[1]), width_of(kind) // len(targets)
                    for t, target in enumerate(targets):
                        if target != "_":
                            put(target, bits >> (t * width), f"b{width}")
                elif o[1][0] == "{":
                    sources = [t.strip() for t in o[1].strip("{}").split(",")]
                    width = width_of(kind) // len(sources)
                    put(o[0], sum((value(s) & MASK[width]) << (t * width) for t, s in enumerate(sources)), kind)
                else:
                    regs[o[0]] = value(o[1], kind)
            elif name == "setp":
                compare = i.parts[1]
                kinds = [p for p in i.parts[2:] if p not in ("and", "or", "xor", "ftz")]
                a, b = number(o[1], kinds[-1]), number(o[2], kinds[-1])
                nan = isinstance(a, float) and (math.isnan(a) or math.isnan(b))
                base = compare.rstrip("u") if compare[-1] == "u" and len(compare) == 3 else compare
                base = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(base, base)
                if base == "nan":
                    result = nan
                elif base == "num":
                    result = not nan
                elif nan:
                    result = compare != base
                else:
                    result = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[base]
                if "and" in i.parts:
                    result = result and bool(value(o[3].lstrip("!"))) != o[3].startswith("!")
                if "or" in i.parts:
                    result = result or bool(value(o[3].lstrip("!"))) != o[3].startswith("!")
                targets = o[0].split("|")
                regs[targets[0]] = int(result)
                if len(targets) > 1:
                    regs[targets[1]] = int(not result)
            elif name == "selp":
                regs[o[0]] = value(o[1] if value(o[3]) else o[2], kind)
            elif name in ("div", "rem") and kind[0] in "su":
                count.divisions += 1
                count.divisions64 += kind.endswith("64")
                a, b = number(o[1], kind), number(o[2], kind)
                quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                put(o[0], quotient if name == "div" else a - quotient * b, kind)
            else:
                self.arithmetic(i, o, number, put)
            if name not in ("ld", "ldu") and o and o[0] in pending:
                pending.pop(o[0], None)
        return count

    @staticmethod
    def arithmetic(i, o, number, put):
        name, kind, parts = i.parts[0], i.kind, i.parts
        real = kind in ("f32", "f64", "f16", "bf16")
        if name == "cvt":
            source, target = kind, parts[-2]
            if target == "bf16x2" or target == "f16x2":
                half = "bf16" if target[0] == "b" else "f16"
                put(o[0], as_bits(number(o[1], "f32"), half) << 16 | as_bits(number(o[2], "f32"), half), "b32")
                return
            x = number(o[1], source)
            if target in ("f32", "f64", "f16", "bf16"):
                if parts[1] in ("rzi", "rni", "rmi", "rpi") and math.isfinite(x):
                    x = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}[parts[1]](x)
                if "sat" in parts:
                    x = min(max(x, 0.0), 1.0) if not math.isnan(x) else 0.0
                put(o[0], float(x), target)
            else:
                if isinstance(x, float):
                    x = 0 if not math.isfinite(x) else {"rni": round, "rmi": math.floor}.get(parts[1], math.trunc)(x)
                put(o[0], x, target)
            return
        x = [number(operand, kind) for operand in o[1:]]
        if name in ("mul", "mad") and not real:
            wide = "wide" in parts
            product = x[0] * x[1]
            if "hi" in parts:
                product >>= int(kind[1:])
            if name == "mad":
                if wide:
                    x[2] = number(o[3], kind[0] + str(2 * int(kind[1:])))
                product += x[2]
            put(o[0], product, kind if not wide else kind[0] + str(2 * int(kind[1:])))
            return
        if name in ("addc", "subc", "madc") or "cc" in parts:  # carries are not kept: wide products alone need them
            put(o[0], {"a": lambda: x[0] + x[1], "s": lambda: x[0] - x[1], "m": lambda: x[0] * x[1]}[name[0]](), kind)
            return
        if name in ("shl", "shr", "shf"):
            amount = number(o[2], "u32")
            if name == "shf":
                put(o[0], (x[1] << 32 | x[0]) >> (number(o[3], "u32") & 31), "b32")
            elif amount >= int(kind[1:]):
                put(o[0], -1 if name == "shr" and x[0] < 0 else 0, kind)
            else:
                put(o[0], x[0] << amount if name == "shl" else x[0] >> amount, kind)
            return
        if kind == "pred":
            a, b = x[0], x[1] if len(x) > 1 else 0
            put(o[0], {"and": a & b, "or": a | b, "xor": a ^ b, "not": 1 - a}[name], "b8")
            return
        if name == "prmt":
            source, selector = x[0] | x[1] << 32, x[2]
            put(o[0], sum((source >> (8 * (selector >> (4 * b) & 7)) & 0xFF) << (8 * b) for b in range(4)), "b32")
            return
        if kind in ("bf16x2", "f16x2"):
            put(o[0], 0, "b32")
            return

        def table(a, b, c, bits):  # bit 4 a + 2 b + c of `bits`, place by place
            return sum((bits >> (4 * (a >> n & 1) + 2 * (b >> n & 1) + (c >> n & 1)) & 1) << n for n in range(32))

        def safe(function):
            try:
                return function()
            except (OverflowError, ValueError, ZeroDivisionError):
                return math.nan if real else 0

        functions = {
            "add": lambda: x[0] + x[1], "sub": lambda: x[0] - x[1], "mul": lambda: x[0] * x[1],
            "fma": lambda: x[0] * x[1] + x[2], "div": lambda: x[0] / x[1], "neg": lambda: -x[0], "abs": lambda: abs(x[0]),
            "max": lambda: max(x[0], x[1]), "min": lambda: min(x[0], x[1]), "and": lambda: x[0] & x[1],
            "or": lambda: x[0] | x[1], "xor": lambda: x[0] ^ x[1], "not": lambda: ~x[0],
            "sqrt": lambda: math.sqrt(x[0]), "rcp": lambda: 1 / x[0], "rsqrt": lambda: 1 / math.sqrt(x[0]),
            "ex2": lambda: 2.0 ** x[0], "lg2": lambda: math.log2(x[0]), "sin": lambda: math.sin(x[0]),
            "cos": lambda: math.cos(x[0]), "tanh": lambda: math.tanh(x[0]),
            "copysign": lambda: math.copysign(x[1], x[0]), "popc": lambda: bin(x[0]).count("1"),
            "clz": lambda: 64 - x[0].bit_length(), "lop3": lambda: table(*x), "bfe": lambda: x[0] >> x[1] & (1 << x[2]) - 1,
            "bfi": lambda: x[1] & ~((1 << x[3]) - 1 << x[2]) | (x[0] & (1 << x[3]) - 1) << x[2],
        }
        put(o[0], safe(functions[name]), kind)


class Module:
    def __init__(self, text):
        self.kernels, self.shared = {}, {}
        at = SHARED + (1 << 28)  # beyond those of a kernel
        for variable in re.finditer(r"^\.shared.*?([\w$]+)\[(\d+)\];", text, re.M):
            self.shared[variable[1]] = at
            at += int(variable[2]) + 64
        for entry in re.finditer(r"\.entry\s+([\w$]+)\s*\((.*?)\)[^{]*\{(.*?)^\}", text, re.M | re.S):
            params = re.findall(r"([\w$]+_param_\d+)", entry[2])
            self.kernels[entry[1]] = Kernel(entry[1], params, entry[3])
