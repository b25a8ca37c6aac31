"""Shared by the fitting scripts: reading tables, a descent that needs no packages, error figures, YAML.

    rows = fit.read("table.csv")                        # dicts; lines that start with # are comments
    fit.descend(parameters, lambda p: error(rows, p))   # in place; every parameter is a positive number
    print(fit.figures([(predicted, measured), ...]))    # n 900, mean |error| 5.1 %, median 3.0 %, within 10 %: 86 %
"""

import csv
import math
import random


def read(path):
    with open(path, newline="") as table:
        return list(csv.DictReader(line for line in table if not line.startswith("#")))


def _keys(parameters):
    for name, value in parameters.items():
        if isinstance(value, list):
            yield from ((name, i) for i in range(len(value)))
        else:
            yield (name, None)


def _get(parameters, key):
    return parameters[key[0]] if key[1] is None else parameters[key[0]][key[1]]


def _set(parameters, key, value):
    if key[1] is None:
        parameters[key[0]] = value
    else:
        parameters[key[0]][key[1]] = value


def descend(parameters, error, rounds=20, step=0.15, fixed=(), most=None):
    """Coordinate descent by factors; `most` bounds single parameters from above. Deterministic."""
    best = error(parameters)
    steps = {key: step for key in _keys(parameters) if key[0] not in fixed}
    for _ in range(rounds):
        for key in steps:
            value = _get(parameters, key)
            for factor in (1 + steps[key], 1 / (1 + steps[key])):
                trial = value * factor
                if most and trial > most.get(key[0], math.inf):
                    continue
                _set(parameters, key, trial)
                got = error(parameters)
                if got < best:
                    best, value = got, trial
                    break
            else:
                steps[key] *= 0.5
            _set(parameters, key, value)
        if max(steps.values()) < 1e-3:
            break
    return best


def each_tenth(rows, fitted, predicted, seed=1):
    """Pairs of all rows, each predicted by constants that were fitted without its tenth: for tables too small to give up a
    fixed tenth. fitted(rows) gives the constants, predicted(constants, row) and row[-1] the pair."""
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    out = []
    for tenth in range(10):
        constants = fitted([row for i, row in enumerate(shuffled) if i % 10 != tenth])
        out += [(predicted(constants, row), row[-1]) for row in shuffled[tenth::10]]
    return out


def log_error(pairs):
    """Mean of |log(predicted / measured)|: halves and doubles count alike, outliers have little weight."""
    return sum(abs(math.log(p / m)) for p, m in pairs) / len(pairs)


def figures(pairs):
    errors = sorted(abs(p / m - 1) for p, m in pairs)
    n = len(errors)
    within = {x: sum(e <= x for e in errors) / n for x in (0.05, 0.1, 0.2)}
    bias = math.exp(sum(math.log(p / m) for p, m in pairs) / n) - 1
    return (f"n {n}, mean |error| {100 * sum(errors) / n:.1f} %, median {100 * errors[n // 2]:.1f} %, "
            f"within 5/10/20 %: {100 * within[0.05]:.0f}/{100 * within[0.1]:.0f}/{100 * within[0.2]:.0f} %, "
            f"bias {100 * bias:+.1f} %")


def at(points, x):
    """The value of a device file's curve: linear in log x between points."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if x <= x1:
            return y0 + (y1 - y0) * math.log(x / x0) / math.log(x1 / x0)
    return points[-1][1]


def curve(points, digits=3):
    return "[" + ", ".join(f"[{x:.4g}, {y:.{digits}f}]" for x, y in points) + "]"


def sample(rows, count):
    """Every n-th row: the same each time, over the whole table."""
    if len(rows) <= count:
        return rows
    return [rows[i * len(rows) // count] for i in range(count)]
