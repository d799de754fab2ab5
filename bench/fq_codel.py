"""Reads one run of fq-codel.sh: KIND QDISC SENT GOT prints its figures; `table` makes a table of medians of such rows."""
import collections
import json
import statistics
import sys

COLUMNS = ["Mbit/s", "sparse p50, ms", "sparse p99, ms", "Jain, bulk", "limit, KiB", "dropped", "marked"]


def row(kind, qdisc, sent, got):
    sent, got = (json.load(open(name)) for name in (sent, got))
    lost = sent["drops"]["by_reason"].keys() - {"closed", "codel"}
    if lost or got["duplicated"]:
        sys.exit(f"{kind}, {qdisc}: {sent['drops']}, {got['drops']}, {got['duplicated']} duplicated")
    bands = {one["band"]: one["latency_ns"] for one in got["latency_by_dscp"]}
    bulk = [one["packets"] for one in sent["senders"]][:8]
    jain = sum(bulk) ** 2 / len(bulk) / sum(count**2 for count in bulk)
    stats = sent.get("qdisc", {})
    figures = [got["gbps"] * 1000, bands[0]["p50"] / 1e6, bands[0]["p99"] / 1e6, jain, sent["bql"]["limit_bytes"] / 1024]
    print(json.dumps([kind, qdisc, figures + [sent["drops"]["by_reason"].get("codel", 0), stats.get("marked", 0)]]))


def table():
    rows = collections.defaultdict(list)
    for line in sys.stdin:
        kind, qdisc, figures = json.loads(line)
        rows[kind, qdisc].append(figures)
    print(f"| device | qdisc | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 2)}")
    for (kind, qdisc), runs in rows.items():
        medians = [statistics.median(run[at] for run in runs) for at in range(len(COLUMNS))]
        print(f"| {kind} | {qdisc} | {' | '.join(f'{value:.3g}' if value < 100 else f'{value:.0f}' for value in medians)} |")


def guest():
    """The receiver's reports on a guest's console, between lines `=begin BY` and `=end BY`."""
    runs = collections.defaultdict(list)
    by, lines = None, []
    for line in sys.stdin:
        if line.startswith("=begin "):
            by, lines = line.split()[1], []
        elif line.startswith("=end ") and by:
            got = json.loads("".join(lines))
            latency = {one["band"]: one["latency_ns"] for one in got["latency_by_dscp"]}[0]
            runs[by].append([latency["p50"] / 1e6, latency["p99"] / 1e6, got["gbps"] * 1000])
            by = None
        else:
            lines.append(line)
    print("| bottleneck | sparse p50, ms | sparse p99, ms | Mbit/s | p99 by round |\n|---|---|---|---|---|")
    for by, rows in runs.items():
        medians = [statistics.median(row[at] for row in rows) for at in range(3)]
        print(f"| {by} | {' | '.join(f'{value:.2f}' for value in medians)} | {', '.join(f'{row[1]:.2f}' for row in rows)} |")
    for at, name in enumerate(("p50", "p99")):
        ratios = [wharf[at] / kernel[at] for wharf, kernel in zip(runs["wharf"], runs["kernel"])]
        print(f"wharf over kernel, {name}: {statistics.median(ratios):.2f} (by round: {', '.join(f'{one:.2f}' for one in ratios)})")


modes = {"table": table, "guest": guest}
modes[sys.argv[1]]() if sys.argv[1] in modes else row(*sys.argv[1:])
