"""Runs the cases of bql.sh in turn, prints medians as Markdown, and draws them."""
import argparse
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("wharf")
parser.add_argument("near")
parser.add_argument("far")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=5)
parser.add_argument("--plot", help="where to draw")
parser.add_argument("--check", action="store_true", help="fail where the byte limit gains little or costs much")
args = parser.parse_args()

# Equal but for the byte limit. Small queues would keep most of two senders' packets out of the device by themselves; they do
# not bound the total of many senders.
SEND = ["--size", "1514", "--senders", "2", "--small-queues", "off", "--qdisc", "prio", "--priority-rate", "1kpps"]
CASES = {
    "xdp": ["--to", "xdp:va"],
    "xdp, 16 KiB super-packets": ["--to", "xdp:va", "--gso", "16k", "--frames", "8192"],
    "packet": ["--to", "packet:va"],
    "packet, 16 KiB super-packets": ["--to", "packet:va", "--gso", "16k", "--frames", "2048"],
}
FIRST_BAND = 0


def backlog_bytes():
    """Bytes queued before the slow wire."""
    shown = subprocess.run(["tc", "-n", args.far, "-s", "-j", "qdisc", "show", "dev", "ifb0"], capture_output=True, text=True)
    return sum(qdisc.get("backlog", 0) for qdisc in json.loads(shown.stdout))


def start(space, *command, errors):
    return subprocess.Popen(["ip", "netns", "exec", space, args.wharf, *command], stdout=subprocess.PIPE, stderr=errors, text=True)


def receiver(errors):
    process = start(args.far, "receive", "--from", "packet:behind", "--json", errors=errors)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        errors.seek(0)
        if "listening on" in errors.read():
            return process
        time.sleep(0.05)
    process.kill()
    sys.exit("the receiver does not start")


def report(process, what, errors):
    text, _ = process.communicate(timeout=60)
    errors.seek(0)
    if not text:
        sys.exit(f"{what}: {errors.read()}")
    return json.loads(text), errors


def run(case, bql):
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as sender_errors:
        receives = receiver(errors)
        command = ["send", *CASES[case], *SEND, "--bql", bql, "--seconds", str(args.seconds), "--json"]
        sends = start(args.near, *command, errors=sender_errors)
        began, stood = time.monotonic(), []
        while sends.poll() is None and time.monotonic() < began + args.seconds + 30:
            at = time.monotonic() - began
            if args.seconds / 4 < at < args.seconds:
                stood.append(backlog_bytes())
            time.sleep(args.seconds / 40)
        sent, _ = report(sends, f"{case}, byte limit {bql}", sender_errors)
        time.sleep(0.2)
        receives.send_signal(signal.SIGINT)
        got, _ = report(receives, "receiver", errors)
    # Frames in the device at the end come back as `closed`.
    if sent["drops"]["by_reason"].keys() - {"closed", "lost"} or got["drops"]["total"] or got["reordered"] or got["duplicated"] or got["unstamped"]:
        sys.exit(f"{case}, byte limit {bql}: {sent['drops']}, {got['drops']}, {got['reordered']} reordered")
    bands = {one["band"]: one["latency_ns"] for one in got["latency_by_dscp"]}
    return {
        "mbit": got["gbps"] * 1000,
        "stood": statistics.median(stood),
        "limit": sent["bql"]["limit_bytes"],
        "p50": bands[FIRST_BAND]["p50"] / 1e6,
        "p99": bands[FIRST_BAND]["p99"] / 1e6,
        "bulk": bands[1]["p50"] / 1e6,
    }


figures = {(case, bql): [] for case in CASES for bql in ("off", "on")}
for at in range(args.rounds):
    print(f"round {at + 1} of {args.rounds}", file=sys.stderr)
    for case, bql in figures:
        figures[case, bql].append(run(case, bql))

median = {
    key: {name: statistics.median(row[name] for row in rows) for name in rows[0]} for key, rows in figures.items()
}


def ratio(case, name):
    """Pair by pair: on over off."""
    return statistics.median(on[name] / off[name] for on, off in zip(figures[case, "on"], figures[case, "off"]))


print("| device | byte limit | Mbit/s | first band's delay, p50 | p99 | before the wire |")
print("|---|---|---|---|---|---|")
for (case, bql), row in median.items():
    limit = f"on: {row['limit'] / 1024:.0f} KiB" if bql == "on" else "off"
    columns = [f"{row['mbit']:.2f}", f"{row['p50']:.1f} ms", f"{row['p99']:.1f} ms", f"{row['stood'] / 1024:.0f} KiB"]
    print(f"| {case} | {limit} | {' | '.join(columns)} |")
print()
for case in CASES:
    print(f"{case}: {100 * ratio(case, 'mbit'):.1f} % of the throughput, {ratio(case, 'p99'):.3f} of the p99 delay")


def plot(path):
    """Bars of the first band's p99, with a line at p50."""
    left, top, width, row = 180, 74, 380, 34
    step_ms = 50
    most_ms = step_ms * max(1, math.ceil(max(row["p99"] for row in median.values()) / step_ms))
    place = lambda ms: left + width * ms / most_ms
    height = top + len(CASES) * (2 * row + 14) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" font-family="sans-serif" font-size="13">',
        "<title>Delay of high-priority packets behind a wire of 100 Mbit/s, with the byte queue limit off and on</title>",
        "<style>text{fill:#24292f}.m{stroke:#24292f;stroke-width:2}.g{stroke:#8c959f;stroke-opacity:.4}.off{fill:#d4663b}.on{fill:#2f7fd1}"
        "@media(prefers-color-scheme:dark){text{fill:#d0d7de}.m{stroke:#fff}.off{fill:#e8825a}.on{fill:#58a6ff}}</style>",
        '<text x="16" y="24" font-size="16" font-weight="bold">Delay of high-priority packets, bulk traffic beside them, 100 Mbit/s</text>',
        '<rect class="off" x="16" y="38" width="12" height="12"/><text x="34" y="49">byte queue limit off</text>',
        '<rect class="on" x="176" y="38" width="12" height="12"/><text x="194" y="49">on</text>',
        '<text x="232" y="49">bar: p99, line: p50</text>',
    ]
    for ms in range(0, most_ms + 1, step_ms):
        x = place(ms)
        lines.append(f'<line class="g" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{height - 30}"/>')
        lines.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{ms} ms</text>')
    y = top
    for case in CASES:
        name, _, rest = case.partition(", ")
        lines.append(f'<text x="16" y="{y + row - 14}" font-weight="bold">{name}</text>')
        lines.append(f'<text x="16" y="{y + row + 4}">{rest}</text>')
        for bql in ("off", "on"):
            one = median[case, bql]
            end, middle = place(one["p99"]), place(one["p50"])
            lines.append(f'<rect class="{bql}" x="{left}" y="{y}" width="{end - left:.1f}" height="{row - 8}" rx="2"/>')
            if end - left > 12:
                lines.append(f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{y}" y2="{y + row - 8}" class="m"/>')
            lines.append(f'<text x="{end + 6:.1f}" y="{y + row - 15}">{one["p99"]:.1f} ms, {one["mbit"]:.1f} Mbit/s</text>')
            y += row
        y += 14
    lines.append("</svg>")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


if args.plot:
    plot(args.plot)
if args.check:
    bad = list(CASES)
    for again in range(3):
        # A busy machine gets other tries, of what it failed.
        figures |= {(case, bql): [run(case, bql)] for case in bad if again for bql in ("off", "on")}
        # The delay is that of what stands before the wire.
        bad = [case for case in bad if ratio(case, "mbit") < 0.8 or ratio(case, "p50") > 0.5]
    if bad:
        sys.exit(f"the byte limit gains little, or costs much: {'; '.join(bad)}")
