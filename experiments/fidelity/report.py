"""Tables for people, one document for programs."""
from .compare import figures, orders, outcomes

UNITS = {"step_s": ("step time", "s"), "peak_bytes": ("peak memory", "GB"), "device_bytes": ("peak of the device", "GB"),
         "last_peak_bytes": ("peak memory of the last stage", "GB"), "state_bytes": ("states", "GB"),
         "activation_bytes": ("activations", "GB"), "fits": ("whether it fits", "")}
WORST = 5
# The project's aims for step times: mean absolute error in percent, or the median if runs are bound by launches
AIMS = {"vtrain_single_node": "5", "vtrain_multi_node": "7", "megatron_sc21": "3", "korthikanti": "3", "zero3_vs_ptdp": "10",
        "zero_bubble": "4", "mosaicml": "7", "torchtitan": "8", "aleph_alpha": "8", "internevo": "8", "dlperf_resnet50": "8",
        "dlperf_bert": "8", "dlperf_gpt": "7", "megatron_ci": "12 (median)", "nemo_2407": "8", "mlperf": "8", "megatron_bridge": "10"}
PEAKS = ("peak_bytes", "device_bytes", "last_peak_bytes", "state_bytes", "activation_bytes")
AIM_OF_PEAKS = "5"  # of all of them together


def shown(quantity, value):
    return f"{value / 1e9:.2f}" if UNITS[quantity][1] == "GB" else f"{value:.4g}"


def summary_row(comparison, quantity):
    """Cells: family, quantity, cases, without a number, mean, aim, median, 90th percentile, bias; order if it is compared."""
    results = comparison.of(quantity)
    aim = AIMS.get(comparison.family.name, "") if quantity == "step_s" else ""
    cells = [comparison.family.name, UNITS[quantity][0]] + error_cells(results, aim)
    order = orders(results)
    if not order:
        return cells + ["", ""]
    return cells + [f"{sum(o.correlation for o in order) / len(order):.3f}", f"{sum(o.regret for o in order) / len(order):.1f}"]


def error_cells(results, aim):
    missing = sum(r.simulated is None for r in results)
    f = figures(results)
    return ([str(len(results) - missing), str(missing)]
            + ([f"{f.mean:.1f}", aim, f"{f.median:.1f}", f"{f.p90:.1f}", f"{f.bias:+.1f}"] if f else ["", aim, "", "", ""]))


HEADER = ["family", "compared", "cases", "no number", "mean abs. error, %", "aim, %", "median, %", "90th percentile, %", "bias, %",
          "rank correlation", "regret, %"]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def summary(comparisons):
    rows = [summary_row(c, q) for c in comparisons for q in c.quantities() if q != "fits"]
    peaks = [r for c in comparisons for r in c.results if r.case.quantity in PEAKS]
    if len(comparisons) > 1 and peaks:
        rows.append(["all of these", "memory"] + error_cells(peaks, AIM_OF_PEAKS) + ["", ""])
    return table(HEADER, rows)


def outcome_line(results):
    o = outcomes(results)
    return (f"whether it fits: {o.fit_foretold} of {o.fit} that ran and {o.not_fit_foretold} of {o.not_fit} that ran out of memory are "
            f"foretold: {o.accuracy:.1f} %, balanced accuracy {o.balanced:.3f}")


def order_line(found):
    least = min(found, key=lambda o: o.correlation)
    most = max(found, key=lambda o: o.regret)
    return (f"order, {len(found)} groups of plans: rank correlation {sum(o.correlation for o in found) / len(found):.3f}, least "
            f"{least.correlation:.3f} ({least.group}); the plan predicted best takes {sum(o.regret for o in found) / len(found):.1f} % "
            f"more than the best, at most {most.regret:.1f} % ({most.group})")


def family_text(comparison, rows_in_full):
    lines = [f"## {comparison.family.name}", "", f"{comparison.family.title}. {comparison.rows} rows.", ""]
    lines += [f"{count} left out: {rule}" for rule, count in comparison.left_out.items()]
    for quantity in comparison.quantities():
        results = comparison.of(quantity)
        if quantity == "fits":
            lines.append(outcome_line(results))
            continue
        lines += quantity_lines(quantity, results, rows_in_full)
    return "\n".join(lines)


def quantity_lines(quantity, results, rows_in_full):
    name, unit = UNITS[quantity]
    known = [r for r in results if r.simulated is not None]
    lines = []
    if f := figures(results):
        lines += [f"{name}: {f.count} compared; mean absolute error {f.mean:.1f} %, median {f.median:.1f} %, 90th percentile "
                  f"{f.p90:.1f} %, bias {f.bias:+.1f} %"]
    reasons = {}
    for r in results:
        if r.simulated is None:
            reasons.setdefault(r.why_not, []).append(r)
    lines += [f"no number: {len(found)} x {why}" for why, found in reasons.items()]
    if found := orders(results):
        lines.append(order_line(found))
    worst = sorted(known, key=lambda r: -abs(r.error))
    listed = known if rows_in_full else worst[:WORST]
    if listed:
        lines += ["", table(["row" if rows_in_full else "worst rows", f"published, {unit}", f"simulated, {unit}", "error, %"],
                            [[r.case.name, shown(quantity, r.case.published), shown(quantity, r.simulated), f"{r.error:+.1f}"]
                             for r in listed]), ""]
    return lines


def document(comparisons):
    rows = [{"family": c.family.name, "row": r.case.name, "quantity": r.case.quantity, "published": r.case.published,
             "simulated": r.simulated, "flags": list(r.case.flags)} | ({"why_not": r.why_not} if r.why_not else {})
            for c in comparisons for r in c.results]
    return {"schema_version": 1, "rows": rows,
            "left_out": {c.family.name: c.left_out for c in comparisons if c.left_out}}
