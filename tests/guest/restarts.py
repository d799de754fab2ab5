"""The account of numbered streams over a back end that was killed time after time: `restarts.py NAME FOLDER STUCK SECONDS` prints a row
of the table, and ends with 1 if something is not as it must be; without arguments it prints the head. `restarts.py silent FOLDER` prints
the flows from the driver of which nothing comes, `begun FOLDER COUNT` ends with 1 until so many have begun."""
import datetime
import glob
import json
import os
import statistics
import sys
import time
from streams import Direction, arrivals, drops

# Time that a packet may be under way when a kill meets it, s, that within which flows are to go on from the connection, and that after
# which a stream counts as stuck.
UNDER_WAY, SOON, STUCK = 0.5, 1.2, 5
# Time without a packet after which `silent` names a flow, s.
QUIET = 0.4
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
    """Drops by name in direction `at` of all lives, of our own driver, whose directions are the other way round, and of all else."""
    total = dict(drops(folder, at))
    for path in glob.glob(f"{folder}/stats.*"):
        lines = [line for line in open(path).read().splitlines() if line.endswith("}")]
        for reason, count in json.loads(lines[-1])["paths"][at]["drops"].items() if lines else ():
            total[reason] = total.get(reason, 0) + count
    if os.path.exists(f"{folder}/front.json"):
        for reason, count in json.load(open(f"{folder}/front.json"))["directions"][1 - at]["drops"]["by_reason"].items():
            total[reason] = total.get(reason, 0) + count
    return {reason: count for reason, count in total.items() if count}


def sorts(lost, kills, ends, names):
    """Lost packets by how: under way at a kill, sent while the back end was away, dropped by name, others. `ends` has, by kill, when
    each flow's outage was over."""
    killed = away = others = 0
    for flow, sent in lost:
        if any(kill < sent <= over.get(flow, 0) for kill, over in zip(kills, ends)):
            away += 1
        elif any(kill - UNDER_WAY < sent <= kill for kill in kills):
            killed += 1
        else:
            others += 1
    # What was dropped by name during an outage excuses nothing else.
    by_name = min(others, max(0, sum(names.values()) - away))
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
    flows = [[dict(direction.backs(up, end)) for up, end in zip(ups, ends)] for direction in directions]
    backs = [[max(of_round.values(), default=float("inf")) for of_round in one] for one in flows]
    from_kill = [max(both) - kill for kill, *both in zip(kills, *backs)]
    connected = [min([at for at in came if up - 0.5 <= at < end], default=up) for up, end in zip(ups, ends)]
    from_connection = [max(both) - at for at, *both in zip(connected, *backs)]
    losses, names = [], [named(folder, at) for at in (0, 1)]
    for direction, of_rounds, name_of in zip(directions, flows, names):
        # A flow that is silent for longer than that has no outage of its own.
        over = [{flow: min(back, at + SOON) for flow, back in of_round.items()} for at, of_round in zip(connected, of_rounds)]
        losses.append(sorts(direction.lost(), kills, over, name_of))
    pool = sum(one["pool"]["out"] for path in glob.glob(f"{folder}/back.*.json") for one in json.load(open(path))["directions"])
    stuck += sum(one > STUCK for one in from_connection)
    twice, changed = (sum(getattr(one, what) for one in directions) for what in ("twice", "changed"))
    show = lambda times: f"{statistics.median(times):.2f}, {max(times):.2f}"
    print(ROW.format(name, len(kills), show(from_kill), show(from_connection), sum(one > SOON for one in from_connection), twice, changed,
      "/".join(map(str, losses[1])), "/".join(map(str, losses[0])), pool, stuck, f"{os.getloadavg()[1]:.1f}", seconds), flush=True)
    for at, (mark, up, all, driver) in enumerate(zip((mark for mark in marks if mark[0] in ("KILL", "TERM")), ups, from_kill, from_connection)):
        if all > 3 or driver > SOON:
            kill = float(mark[1])
            print(f"  round {at}, {mark[0]}: gone after {gone[at] - kill:.2f} s, ready after {up - kill:.2f}, the driver's connection after {all - driver:.2f}, all on after {all:.2f}"
              f" ({backs[1][at] - kill:.2f} to the driver, {backs[0][at] - kill:.2f} from it)")
            for way, direction, of_rounds in zip(("from", "to"), directions, flows):
                for flow, back in sorted(of_rounds[at].items()):
                    if back - connected[at] > SOON:
                        lost = sum(one == flow and kill < sent <= back for one, sent in direction.lost())
                        print(f"    flow {flow} {way} the driver: on after {back - kill:.2f}, {lost} lost")
    for to, one in zip(("from", "to"), names):
        if one:
            print(f"  drops {to} the driver: {one}")
    return bool(twice or changed or pool or stuck or losses[0][3] or losses[1][3])


def flows(folder):
    """The time at which each flow's last packet came from the driver."""
    return {flow: arrived for arrived, flow, *_ in arrivals(f"{folder}/near.pcap") if flow}


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(HEAD)
    elif sys.argv[1] == "begun":
        sys.exit(len(flows(sys.argv[2])) < int(sys.argv[3]))
    elif sys.argv[1] == "silent":
        last = flows(sys.argv[2])
        print(*sorted(flow for flow, arrived in last.items() if arrived < max(last.values()) - QUIET))
    else:
        name, folder, stuck, seconds = sys.argv[1:]
        sys.exit(account(name, folder, int(stuck), seconds))
