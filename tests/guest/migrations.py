"""The account of numbered streams to and from a guest that moved: `migrations.py NAME FOLDER` prints a line, and ends with 1 if packets
came twice or changed, or more were lost than were sent while the guest could not be reached, or dropped by name besides."""
import bisect
import datetime
import json
import os
import re
import statistics
import sys
from streams import Direction, drops as others_drops

# Before and after an event, s: the clocks of events and packets differ by less.
CLOCKS = 0.002
# Time around a migration in which losses are shown, s.
NEAR = 2


def drops(folder, at):
    """Drops by name in direction `at`, of both wharfs and all else."""
    for wharf in (0, 1):
        for reason, count in json.load(open(f"{folder}/shown{wharf}.json"))["paths"][at]["drops"].items():
            yield f"{reason} at {wharf}", count
    yield from others_drops(folder, at)


def moments(folder):
    """Of each migration: when the rings stopped, when the guest stopped and went on, and when the bridge had its address at the other port;
    None if it had not before the next one."""
    lines = lambda name: open(f"{folder}/{name}").read().splitlines()
    stops, resumes = (sorted(float(line.split()[1]) for line in lines("stops") if line.startswith(what)) for what in ("STOP", "RESUME"))
    rings = [float(re.search(r"@([0-9.]+):", line)[1]) for line in lines("rings")]
    # Each entry follows a line with its time.
    moves = sorted({datetime.datetime.strptime(f"{at[1]} {at[2]:>06}", "%a %b %d %H:%M:%S %Y %f").timestamp()
      for at in re.finditer(r"Timestamp: (.*) (\d+) usec\n02:00:00:00:00:02 dev w[01] ", open(f"{folder}/moves.json").read())})
    ends = rings[1:] + [float("inf")]
    for ring, stop, resume, end in zip(rings, stops, resumes, ends, strict=True):
        moved = next((move for move in moves if stop < move < end), None)
        yield ring, stop, resume, moved and max(moved, resume)


def main(name, folder):
    found = list(moments(folder))
    bad = sum(moved is None for *_, moved in found)
    if bad:
        print(f"  {bad} times the bridge did not have the guest's address at the other port")
    all_moments = [(ring, stop, resume, moved or resume) for ring, stop, resume, moved in found]
    journeys = [json.loads(line)["return"] for line in open(f"{folder}/journeys")]
    downtimes = [journey["downtime"] for journey in journeys]
    parts = [[(later - sooner) * 1000 for sooner, later in zip(of_one, of_one[1:])] for of_one in all_moments]
    show = ", ".join(f"{what} {statistics.median(part):.0f}, {max(part):.0f} at most"
      for what, part in zip(("rings stop to stop", "stop to resume", "resume to moved"), zip(*parts)))
    print(f"{name}: {len(journeys)} migrations, downtime {statistics.median(downtimes)} ms, {max(downtimes)} at most (ms: {show}), load {os.getloadavg()[1]:.1f}")
    resumes = [resume for _, _, resume, _ in all_moments]
    for at, way, direction in ((0, "from", Direction(f"{folder}/near.pcap", True, resumes)), (1, "to", Direction(f"{folder}/far.pcap", False, resumes))):
        # What the guest sends has its way as soon as it goes on.
        windows = [(ring, moved if at else resume) for ring, _, resume, moved in all_moments]
        down, others = 0, []
        for _, sent in direction.lost():
            off, on = min(windows, key=lambda window: max(window[0] - sent, sent - window[1]))
            if off - CLOCKS <= sent <= on + CLOCKS:
                down += 1
            else:
                others.append(sent - off if sent < off else sent - on)
        names = {reason: count for reason, count in drops(folder, at) if count}
        # What was dropped by name while the guest could not be reached excuses nothing else.
        bad += max(0, len(others) - max(0, sum(names.values()) - down)) + direction.twice + direction.changed
        print(f"  {way} the guest: {sum(map(len, direction.flows.values()))} packets, {direction.twice} twice, {direction.changed} changed, "
          f"lost {down} while it could not be reached, {len(others)} others; drops by name: {names}")
        ends = sorted(arrived for numbers in direction.flows.values() for _, arrived in numbers.values())
        gaps = [(off - ends[bisect.bisect(ends, off + CLOCKS) - 1], ends[bisect.bisect(ends, on - CLOCKS)] - on) for off, on in windows if on < ends[-1]]
        print(f"    the last arrived {max(gap for gap, _ in gaps) * 1000:.0f} ms at most before the rings stopped, the first {max(gap for _, gap in gaps) * 1000:.0f} ms at most after it could be reached")
        late = [arrived - sent for numbers in direction.flows.values() for sent, arrived in numbers.values() if any(on - 1 < sent < on + 10 for on in resumes)]
        print(f"    delay from a second before to ten after: {max(late, default=0) * 1000:.0f} ms at most")
        near = sorted(one for one in others if abs(one) < NEAR)
        if near:
            print(f"    others within {NEAR} s of it (before: negative): {len(near)}, from {near[0]:.3f} to {near[-1]:.3f} s, median {statistics.median(near):.3f}")
    return bool(bad)


sys.exit(main(*sys.argv[1:]))
