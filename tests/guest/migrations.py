"""The account of numbered streams to and from a guest that moved: `migrations.py NAME FOLDER` prints a line, and ends with 1 if packets
came twice or changed, or more were lost than were sent while the guest stood still, or dropped by name."""
import bisect
import json
import os
import statistics
import sys
from streams import Direction

# Before the guest stops and after it goes on, s: the clocks of events and packets differ by less.
CLOCKS = 0.002
# Time around a migration in which losses are shown, s.
NEAR = 2


def drops(folder, at):
    """Drops by name in direction `at`, of both wharfs, the kernel's TAPs and the receiver."""
    for wharf in (0, 1):
        one = json.load(open(f"{folder}/wharf{wharf}.json"))["directions"][at]
        yield from ((f"{reason} at {wharf}", count) for reason, count in one["drops"]["by_reason"].items() if count)
    if at == 1:
        for link in json.load(open(f"{folder}/links.json")):
            dropped = link["stats64"]["tx"]["dropped"]
            if dropped:
                yield f"{link['ifname']}", dropped
    got = json.load(open(f"{folder}/{('near', 'far')[at]}_got.json"))["drops"]["by_reason"]
    yield from ((f"{reason} of the receiver", count) for reason, count in got.items() if count)


def main(name, folder):
    stops, resumes = ([float(line.split()[1]) for line in open(f"{folder}/stops") if line.startswith(what)] for what in ("STOP", "RESUME"))
    stops, resumes = sorted(stops), sorted(resumes)
    journeys = [json.loads(line)["return"] for line in open(f"{folder}/journeys")]
    downtimes = [journey["downtime"] for journey in journeys]
    bad = 0
    print(f"{name}: {len(journeys)} migrations, downtime {statistics.median(downtimes)} ms, {max(downtimes)} at most "
      f"(stop to resume {max((on - off) * 1000 for off, on in zip(stops, resumes)):.0f} at most), load {os.getloadavg()[1]:.1f}")
    for at, way, direction in ((0, "from", Direction(f"{folder}/near.pcap", True, resumes)), (1, "to", Direction(f"{folder}/far.pcap", False, resumes))):
        down, others = 0, []
        for sent in direction.lost():
            off, on = min(zip(stops, resumes), key=lambda at: max(at[0] - sent, sent - at[1]))
            if off - CLOCKS <= sent <= on + CLOCKS:
                down += 1
            else:
                others.append(sent - off if sent < off else sent - on)
        names = dict(drops(folder, at))
        bad += max(0, len(others) - sum(names.values())) + direction.twice + direction.changed
        print(f"  {way} the guest: {sum(map(len, direction.flows.values()))} packets, {direction.twice} twice, {direction.changed} changed, "
          f"lost {down} while it stood still, {len(others)} others; drops by name: {names}")
        ends = sorted(arrived for numbers in direction.flows.values() for _, arrived in numbers.values())
        gaps = [(off - ends[bisect.bisect(ends, off + CLOCKS) - 1], ends[bisect.bisect(ends, on - CLOCKS)] - on) for off, on in zip(stops, resumes)
          if on < ends[-1]]
        print(f"    the last arrived {max(gap for gap, _ in gaps) * 1000:.0f} ms at most before a stop, the first {max(gap for _, gap in gaps) * 1000:.0f} ms at most after the guest went on")
        late = [arrived - sent for numbers in direction.flows.values() for sent, arrived in numbers.values() if any(on - 1 < sent < on + 10 for on in resumes)]
        print(f"    delay from a second before to ten after: {max(late, default=0) * 1000:.0f} ms at most")
        near = sorted(one for one in others if abs(one) < NEAR)
        if near:
            print(f"    others within {NEAR} s of a stop (before: negative) or of going on: {len(near)}, from {near[0]:.3f} to {near[-1]:.3f} s, median {statistics.median(near):.3f}")
    return bool(bad)


sys.exit(main(*sys.argv[1:]))
