"""Runs the contestants of retransmit.sh in turn, and prints medians and ratios, round by round, as Markdown."""
import os
import statistics
import subprocess
import sys
import time

wharf, agave, rounds, seconds = sys.argv[1:5]
counts = " ".join(sys.argv[5:]).split()
CONTESTANTS = {
    "agave-xdp": [agave, "va"],
    "wharf, xdp:va": [wharf, "xdp:va"],
    "wharf, 11/20 by xdp:va, 9/20 by packet:va,bypass=on": [wharf, "xdp:va@11", "packet:va,bypass=on@9"],
}


def sent():
    return int(open("/sys/class/net/va/statistics/tx_packets").read())


def run(producers, program, *where):
    """Returns packets a second on the wire, and processor seconds per million packets."""
    # Agave's loop does not wait for a queue that is being freed.
    time.sleep(0.7)
    before, began = sent(), time.monotonic()
    process = subprocess.Popen([program, producers, seconds, *where], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} {producers} {seconds} {' '.join(where)} failed")
    packets, took = sent() - before, time.monotonic() - began
    return packets / took / 1e6, (usage.ru_utime + usage.ru_stime) / packets * 1e6


print("| producers | | Mpps | of agave-xdp | CPU seconds per million | of agave-xdp |")
print("|---|---|---|---|---|---|")
for producers in counts:
    results = {name: [] for name in CONTESTANTS}
    for _ in range(int(rounds)):
        for name, command in CONTESTANTS.items():
            results[name].append(run(producers, *command))
    for name, own in results.items():
        row = [producers, name]
        for figure in range(2):
            pairs = zip(own, results["agave-xdp"])
            row += [f"{statistics.median(one[figure] for one in own):.3f}"]
            row += [f"{statistics.median(one[figure] / other[figure] for one, other in pairs):.2f}"]
        print(f"| {' | '.join(row)} |", flush=True)
