"""Reads one run of fq-codel.sh: KIND QDISC SENT GOT prints its figures; `table` makes a table of medians of such rows.
`guest` reads the console of fq-codel-guest.sh."""
import collections
import json
import re
import statistics
import sys

COLUMNS = ["Mbit/s", "sparse p50, ms", "sparse p99, ms", "Jain, bulk", "limit, KiB", "dropped", "marked"]
GUEST_COLUMNS = ["sparse p50, ms", "sparse p99, ms", "bulk p50, ms", "bulk p99, ms", "Mbit/s", "Jain, bulk"]
# The generator's first senders; the next one sends the sparse flow.
BULK_FLOWS = 8


def row(kind, qdisc, sent, got):
    sent, got = (json.load(open(name)) for name in (sent, got))
    lost = sent["drops"]["by_reason"].keys() - {"closed", "lost", "codel"}
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


def kernel(release, built):
    """Names the kernel that Wharf is compared with, and says whether its CoDel drops packets of sparse flows: by the date in `uname -v`."""
    year = re.search(r"\b20\d\d\b", built)
    lacks = "lacks 815980fe6dbb" if year and int(year[0]) < 2026 else "may lack 815980fe6dbb (see its changelog)"
    return f"kernel {release}, {built.strip()}: {lacks}; without, CoDel drops packets of sparse flows that ran empty\n"


def guest():
    """The receiver's reports on a guest's console, between lines `=begin BY` and `=end BY`."""
    runs = collections.defaultdict(list)
    by, lines = None, []
    for line in sys.stdin:
        if line.startswith("=kernel "):
            print(kernel(*line.split(maxsplit=2)[1:]))
        elif line.startswith("=begin "):
            by, lines = line.split()[1], []
        elif line.startswith("=end ") and by:
            runs[by].append(guest_row(json.loads("".join(lines))))
            by = None
        else:
            lines.append(line)
    print(f"| bottleneck | {' | '.join(GUEST_COLUMNS)} |\n|{'---|' * (len(GUEST_COLUMNS) + 1)}")
    for by, rows in runs.items():
        medians = [statistics.median(row[at] for row in rows) for at in range(len(GUEST_COLUMNS))]
        print(f"| {by} | {' | '.join(f'{value:.3g}' for value in medians)} |")
    for by in runs.keys() - {"kernel"}:
        for at, name in enumerate(GUEST_COLUMNS[:4]):
            ratios = [wharf[at] / kernel[at] for wharf, kernel in zip(runs[by], runs["kernel"])]
            by_round = ", ".join(f"{one:.2f}" for one in ratios)
            print(f"{by} over kernel, {name}: {statistics.median(ratios):.2f} (by round: {by_round})")


def guest_row(got):
    sparse, bulk = ({one["band"]: one["latency_ns"] for one in got["latency_by_dscp"]}[band] for band in (0, 1))
    counts = [one["packets"] for one in got["streams"] if one["sender"] < BULK_FLOWS]
    assert len(counts) == BULK_FLOWS
    delays = [one[share] / 1e6 for one in (sparse, bulk) for share in ("p50", "p99")]
    return delays + [got["gbps"] * 1000, sum(counts) ** 2 / len(counts) / sum(count**2 for count in counts)]


modes = {"table": table, "guest": guest}
modes[sys.argv[1]]() if sys.argv[1] in modes else row(*sys.argv[1:])
