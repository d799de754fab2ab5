"""Reads rows of `PEER WAY SENDERS BURST MPPS`; prints medians, ratios, and what is left of the two-sender figure."""

import statistics
import sys
from collections import defaultdict

rates = defaultdict(list)
for line in sys.stdin:
    peer, way, senders, burst, mpps = line.split()
    rates[int(burst), int(senders), peer, way].append(float(mpps))
median = {key: statistics.median(values) for key, values in rates.items()}
cases = sorted({key[:2] for key in median})
fewest = min((senders for _, senders in cases if senders > 1), default=1)

print("| burst | senders | owner | Wharf Mpps | of its two-sender figure | best of DPDK Mpps | mode@cores | ratio |")
print("|---|---|---|---|---|---|---|---|")
for burst, senders in cases:
    dpdk = {way: mpps for (b, s, peer, way), mpps in median.items() if (b, s, peer) == (burst, senders, "dpdk")}
    way, best = max(dpdk.items(), key=lambda item: item[1], default=("-", float("nan")))
    for owner in ("inline", "dedicated"):
        mpps = median[burst, senders, "wharf", owner]
        share = mpps / median[burst, fewest, "wharf", owner]
        print(f"| {burst} | {senders} | {owner} | {mpps:.1f} | {share:.2f} | {best:.1f} | {way} | {mpps / best:.2f} |")
