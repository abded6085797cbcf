"""A table of the figures the benchmarks are about, after pytest-benchmark's own."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    if session is None or not session.benchmarks:
        return
    rows = {}
    for bench in session.benchmarks:
        kind = bench.params.get("kernels", "") if bench.params else ""
        for figure, value in bench.extra_info.items():
            rows.setdefault((bench.group, figure), {})[kind] = value
    terminalreporter.section("figures")
    for (group, figure), values in rows.items():
        if "numba" in values and "reference" in values:
            compiled, twin = values["numba"], values["reference"]
            text = f"compiled {compiled:9.2f}   twin {twin:9.2f}   ratio {twin / compiled:7.1f}"
        else:
            text = "   ".join(f"{value:.3f}" for value in values.values())
        terminalreporter.write_line(f"{group:55s} {figure:16s} {text}")
