#!/usr/bin/python3
"""How well any model can tell a time from a shape. Needs numpy and scikit-learn.

    limits.py products TABLE.csv --multiprocessors 108
    limits.py convolutions TABLE.csv --multiprocessors 80 --precision Float --peak 15.7e12 --element 4 --winograd

order      For products. A shape that is no larger in any dimension than another takes no longer in any model of best kernels: a
           larger kernel can run it too. If it was measured to, the errors of both add up to at least the logarithm of their
           ratio; over pairs without a row in common that is a floor of the mean error.
regressor  Trees with any number of leaves, on sizes, tiles and waves, fitted to nine tenths and compared with the tenth held out;
           for convolutions, which are few, each tenth in turn.
"""

import argparse

import fit
import fit_convolution
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

TILES = [(256, 128), (128, 256), (128, 128), (64, 128), (64, 64), (256, 64), (192, 128), (32, 64)]
MOST_RATIO = 2  # of the times of a pair
PARTNERS = 40  # of each row, the worst


def order(sizes, seconds):
    """Floor of the mean error, and how many pairs, of times up to MOST_RATIO apart; sizes [rows][dimensions]."""
    by_time = np.argsort(seconds)
    sizes, logs, pairs = sizes[by_time], np.log(seconds[by_time]), []
    for i in range(len(sizes)):
        first = np.searchsorted(logs, logs[i] - np.log(MOST_RATIO))
        larger = first + np.flatnonzero((sizes[first:i] >= sizes[i]).all(1))
        pairs += [(logs[i] - logs[j], i, j) for j in larger[:PARTNERS] if logs[j] < logs[i]]
    used, floor, count = np.zeros(len(sizes), bool), 0, 0
    for excess, i, j in sorted(pairs, reverse=True):
        if not used[i] and not used[j]:
            used[i] = used[j] = True
            floor, count = floor + excess / len(sizes), count + 1
    return floor, count


def errors(regressor, x, y, held_out):
    return np.abs(np.exp(regressor.fit(x[~held_out], y[~held_out]).predict(x[held_out]) - y[held_out]) - 1)


def products(arguments):
    rows = np.array([[float(r[c]) for c in ("m", "n", "k", "latency_us")] for r in fit.read(arguments.table)])
    np.random.default_rng(1).shuffle(rows)  # as fit_matmul.py, with the same tenth
    m, n, k, seconds = rows.T
    trained = (m >= 64) & (np.minimum(n, k) >= 128)
    for name, chosen in (("all", seconds > 0), ("m >= 64 and n, k >= 128", trained)):
        print(f"order, {name}: mean error at least {100 * order(rows[chosen, :3], seconds[chosen])[0]:.1f} %", flush=True)
    sizes = [m, n, k, m * n, m * k, n * k, m * n * k]
    waves = [np.ceil(m / a) * np.ceil(n / b) / arguments.multiprocessors for a, b in TILES]
    x = np.array([np.log(s) for s in sizes + waves] + [w / np.ceil(w) for w in waves]).T
    y = np.log(seconds) - np.log(m * n * k / 156e12 + (m * n + n * k + m * k) / 1e12 + 1e-6)
    held_out = np.arange(len(rows)) < len(rows) // 10
    regressor = HistGradientBoostingRegressor(max_iter=3000, learning_rate=0.05, l2_regularization=1, loss="absolute_error")
    found = errors(regressor, x, y, held_out)
    print(f"regressor, held out: {100 * found.mean():.1f} %, with m >= 64 and n, k >= 128 {100 * found[trained[held_out]].mean():.1f} %")


def convolutions(arguments):
    rows = list(fit_convolution.read(arguments))
    seconds = np.array([row[2] for row in rows])
    passes = [name for name, _, _ in fit_convolution.PASSES]
    sizes = np.array([[s.n, s.c, s.k, s.h, s.w, s.oh, s.ow, s.flops, s.elements, *s.product(p)] for s, p, _ in rows])
    kinds = np.array([[passes.index(p), s.window, s.stride] for s, p, _ in rows])
    p = fit_convolution.constants([row for i, row in enumerate(rows) if i % 10], arguments)
    ours = np.array([fit_convolution.model(row, p, arguments) for row in rows])
    plain = sizes[:, 7] / arguments.peak + sizes[:, 8] * arguments.element / arguments.bandwidth
    x, tenth = np.hstack([np.log(sizes), kinds]), np.random.default_rng(1).permutation(len(rows)) % 10

    def show(name, found):
        spread = found.std() / len(found) ** 0.5
        print(f"{name}: {100 * found.mean():.1f} % +- {100 * spread:.1f}, median {100 * np.median(found):.1f} %", flush=True)

    show("the model's constants", np.abs(ours / seconds - 1))
    for name, start in (("regressor, each tenth held out", plain), ("the same on what the model leaves", ours)):
        trees = RandomForestRegressor(500, criterion="absolute_error", random_state=1)
        show(name, np.concatenate([errors(trees, x, np.log(seconds / start), tenth == i) for i in range(10)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["products", "convolutions"])
    parser.add_argument("table")
    parser.add_argument("--multiprocessors", type=int, required=True)
    parser.add_argument("--gpu", default="V100", help="how the gpu column begins")
    parser.add_argument("--precision", default="Float", help="how the precision column begins")
    parser.add_argument("--peak", type=float, default=15.7e12)
    parser.add_argument("--bandwidth", type=float, default=900e9)
    parser.add_argument("--element", type=int, default=4, help="bytes of an element")
    parser.add_argument("--winograd", action="store_true")
    arguments = parser.parse_args()
    (products if arguments.kind == "products" else convolutions)(arguments)


if __name__ == "__main__":
    main()
