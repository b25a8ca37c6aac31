"""Cases compared with simulated values, and figures of the errors.

An error is 100 x (simulated / published - 1) percent: positive if the simulation is slower or needs more.
"""
from dataclasses import dataclass

from .family import QUANTITIES, Case, Family, LeftOut
from .simulator import simulate_all

LEAST_GROUP = 4  # plans, for a meaningful order


@dataclass(frozen=True)
class Result:
    case: Case
    simulated: float | None
    why_not: str = ""  # if there is no number

    @property
    def error(self):
        return 100 * (self.simulated / self.case.published - 1)


@dataclass
class Comparison:
    family: Family
    rows: int
    left_out: dict[str, int]  # rows by rule
    results: list[Result]

    def of(self, quantity):
        return [r for r in self.results if r.case.quantity == quantity]

    def quantities(self):
        return list(dict.fromkeys(r.case.quantity for r in self.results))


def result_of(case, document):
    if "error" in document:
        return Result(case, None, document["error"])
    simulated = QUANTITIES[case.quantity](document)
    return Result(case, simulated, "" if simulated is not None else "does not fit")


def compare(family, every=1):
    """Simulates each row of the family, or every n-th row."""
    rows, left_out, cases = family.rows()[::every], {}, []
    for row in rows:
        try:
            cases += family.cases(row)
        except LeftOut as rule:
            left_out[str(rule)] = left_out.get(str(rule), 0) + 1
    documents = simulate_all(case.flags for case in cases)
    return Comparison(family, len(rows), left_out, [result_of(case, documents[case.flags]) for case in cases])


def mean(values):
    return sum(values) / len(values)


def percentile(values, share):
    """The value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Figures:
    count: int
    mean: float
    median: float
    p90: float
    bias: float


def figures(results):
    """Figures of the results that have a number; None if none has."""
    errors = [r.error for r in results if r.simulated is not None]
    if not errors:
        return None
    absolute = [abs(e) for e in errors]
    return Figures(len(errors), mean(absolute), percentile(absolute, 0.5), percentile(absolute, 0.9), mean(errors))


def ranks(values):
    """1 for the least; the mean of their ranks for equal values."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def rank_correlation(a, b):
    """Spearman's: the correlation of ranks; 1 if all are equal."""
    x, y = ranks(a), ranks(b)
    mx, my = mean(x), mean(y)
    covariance = sum((p - mx) * (q - my) for p, q in zip(x, y))
    variance = sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y)
    return covariance / variance**0.5 if variance > 0 else 1.0


@dataclass(frozen=True)
class Order:
    group: str
    count: int
    correlation: float
    regret: float  # percent by which the published time of the plan predicted best exceeds the best published


def orders(results):
    """By group, those of LEAST_GROUP plans and more."""
    groups = {}
    for r in results:
        if r.case.group and r.simulated is not None:
            groups.setdefault(r.case.group, []).append(r)
    found = []
    for name, members in groups.items():
        if len(members) < LEAST_GROUP:
            continue
        published = [r.case.published for r in members]
        chosen = min(members, key=lambda r: r.simulated).case.published
        found.append(Order(name, len(members), rank_correlation([r.simulated for r in members], published),
                           100 * (chosen / min(published) - 1)))
    return found


@dataclass(frozen=True)
class Outcomes:
    """Whether plans fit: of those that did, how many were predicted to, and of those that did not."""
    fit: int
    fit_foretold: int
    not_fit: int
    not_fit_foretold: int

    @property
    def accuracy(self):
        return 100 * (self.fit_foretold + self.not_fit_foretold) / (self.fit + self.not_fit)

    @property
    def balanced(self):
        return (self.fit_foretold / max(1, self.fit) + self.not_fit_foretold / max(1, self.not_fit)) / 2


def outcomes(results):
    told = [(r.case.published > 0, r.simulated > 0) for r in results if r.simulated is not None]
    fit = [said for was, said in told if was]
    not_fit = [said for was, said in told if not was]
    return Outcomes(len(fit), sum(fit), len(not_fit), sum(not said for said in not_fit))
