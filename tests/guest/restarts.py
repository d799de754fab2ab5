"""The account of numbered streams over a back end that was killed time after time: `restarts.py NAME FOLDER STUCK SECONDS` prints a row
of the table, and ends with 1 if something is not as it must be; without arguments it prints the head."""
import datetime
import glob
import json
import os
import statistics
import sys
import time
from streams import Direction

# Time that a packet may be under way when a kill meets it, s, and that after which a stream counts as stuck.
UNDER_WAY, STUCK = 0.5, 5
ROW = "{:20} {:>5} {:>15} {:>15} {:>5} {:>5} {:>7} {:>26} {:>26} {:>5} {:>5} {:>6} {:>5}"
HEAD = ROW.format("configuration", "kills", "s from kill", "from connection", ">1.2", "twice", "changed", "lost to driver", "lost from driver",
  "pool", "stuck", "load", "s") + "\n" + ROW.format("", "", "median, most", "median, most", "", "", "", "killed/away/named/others",
  "killed/away/named/others", "", "", "", "")


def connections(path):
    """When our own driver said that its other side is here again."""
    for line in open(path):
        if "is here again" in line:
            yield datetime.datetime.fromisoformat(json.loads(line)["timestamp"].replace("Z", "+00:00")).timestamp()


def named(folder, at):
    """Drops by name in direction `at` of all lives, and of our own driver, whose directions are the other way round."""
    total = {}
    for path in glob.glob(f"{folder}/stats.*"):
        lines = [line for line in open(path).read().splitlines() if line.endswith("}")]
        for reason, count in json.loads(lines[-1])["paths"][at]["drops"].items() if lines else ():
            total[reason] = total.get(reason, 0) + count
    if os.path.exists(f"{folder}/front.json"):
        for reason, count in json.load(open(f"{folder}/front.json"))["directions"][1 - at]["drops"]["by_reason"].items():
            total[reason] = total.get(reason, 0) + count
    return {reason: count for reason, count in total.items() if count}


def sorts(lost, kills, backs, names):
    """Lost packets by how: under way at a kill, sent while the back end was away, dropped by name, others."""
    killed = away = others = 0
    for sent in lost:
        if any(kill < sent <= back for kill, back in zip(kills, backs)):
            away += 1
        elif any(kill - UNDER_WAY < sent <= kill for kill in kills):
            killed += 1
        else:
            others += 1
    by_name = min(others, sum(names.values()))
    return killed, away, by_name, others - by_name


def account(name, folder, stuck, seconds):
    marks = [line.split() for line in open(f"{folder}/marks")]
    kills = [float(at) for what, at in marks if what in ("KILL", "TERM")]
    gone = [float(at) for what, at in marks if what == "gone"]
    ups = [float(at) for what, at in marks if what == "up"]
    ends = kills[1:] + [float(at) for what, at in marks if what == "end"]
    own = f"{folder}/front.err"
    came = list(connections(own)) if os.path.exists(own) else [float(line.split()[1]) for line in open(f"{folder}/connections")]
    directions = [Direction(f"{folder}/near.pcap", True, kills), Direction(f"{folder}/far.pcap", False, kills)]
    backs = [[direction.back(up, end) for up, end in zip(ups, ends)] for direction in directions]
    from_kill = [max(both) - kill for kill, *both in zip(kills, *backs)]
    from_connection = [max(both) - min([at for at in came if up - 0.5 <= at < end], default=up) for up, end, *both in zip(ups, ends, *backs)]
    losses, names = [], [named(folder, at) for at in (0, 1)]
    for direction, back, name_of in zip(directions, backs, names):
        losses.append(sorts(direction.lost(), kills, back, name_of))
    pool = sum(one["pool"]["out"] for path in glob.glob(f"{folder}/back.*.json") for one in json.load(open(path))["directions"])
    stuck += sum(one > STUCK for one in from_connection)
    twice, changed = (sum(getattr(one, what) for one in directions) for what in ("twice", "changed"))
    show = lambda times: f"{statistics.median(times):.2f}, {max(times):.2f}"
    print(ROW.format(name, len(kills), show(from_kill), show(from_connection), sum(one > 1.2 for one in from_connection), twice, changed,
      "/".join(map(str, losses[1])), "/".join(map(str, losses[0])), pool, stuck, f"{os.getloadavg()[1]:.1f}", seconds), flush=True)
    for at, (mark, up, all, driver) in enumerate(zip((mark for mark in marks if mark[0] in ("KILL", "TERM")), ups, from_kill, from_connection)):
        if all > 3 or driver > 1.2:
            kill = float(mark[1])
            print(f"  round {at}, {mark[0]}: gone after {gone[at] - kill:.2f} s, ready after {up - kill:.2f}, the driver's connection after {all - driver:.2f}, all on after {all:.2f}"
              f" ({backs[1][at] - kill:.2f} to the driver, {backs[0][at] - kill:.2f} from it)")
    for to, one in zip(("from", "to"), names):
        if one:
            print(f"  drops {to} the driver: {one}")
    return bool(twice or changed or pool or stuck or losses[0][3] or losses[1][3])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(HEAD)
    else:
        name, folder, stuck, seconds = sys.argv[1:]
        sys.exit(account(name, folder, int(stuck), seconds))
