"""Medians and ratios of one run of against-dpdk.sh, as a Markdown table."""
import collections
import glob
import json
import re
import statistics
import sys

folder = sys.argv[1]


def dpdk(every):
    rates = collections.defaultdict(list)
    for line in open(f"{folder}/dpdk{every}.txt"):
        found = re.match(r"(one|two)-core burst=(\d+) ([\d.]+) Mpps", line)
        if found:
            rates[({"one": 1, "two": 2}[found[1]], int(found[2]))].append(float(found[3]))
    return rates


ours = collections.defaultdict(list)
for path in sorted(glob.glob(f"{folder}/wharf.*.json")):
    for row in json.load(open(path))["rows"]:
        ours[(row["cores"], row.get("kind", "lane"), row["burst"])].append(row["mpps"])

as_is, no_clock = dpdk(1), dpdk(256)
print("| cores | path | burst | Wharf Mpps | DPDK Mpps | ratio | DPDK, clock taken out | ratio |")
print("|---|---|---|---|---|---|---|---|")
for (cores, kind, burst), rates in sorted(ours.items()):
    # Ratios pair by pair: the machine's speed drifts between rounds.
    def against(theirs):
        return statistics.median(a / b for a, b in zip(rates, theirs[(cores, burst)]))

    mine = statistics.median(rates)
    peer, peer2 = (statistics.median(theirs[(cores, burst)]) for theirs in (as_is, no_clock))
    print(f"| {cores} | {kind} | {burst} | {mine:.1f} | {peer:.1f} | {against(as_is):.2f} | {peer2:.1f} | {against(no_clock):.2f} |")
