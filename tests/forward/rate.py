"""What `wharf forward --rate 100mbit` lets through of three times as much, by the receiver behind it (tests/forward/rates.sh).
usage: rate.py offer FOLDER PID COMMAND...: runs COMMAND, the sender, its report to FOLDER/load.json, and notes in FOLDER/stalls.json
         how long the forwarder, process PID, waited for a processor meanwhile
       rate.py judge NAME FOLDER [SECONDS]: exit code 0 if the rate is right, 1 if it is not, 3 if it is too low and the machine,
         by what was measured of it, stood still for as long: then nothing is known of the rate"""
import json
import os
import subprocess
import sys

# The offered load is less where it does not count the headers of segments.
RATE_GBPS, OFFERED_GBPS = 0.1, 0.95 * 0.3
# 4 ms at the rate (`wharf forward --help`), and a frame.
BURST_BYTES = 50_000 + 1_514
NEVER, STALLED = 1, 3


def waited_ns(pid):
    """For a processor, all threads of `pid` together: proc(5), schedstat."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[1]) for task in os.listdir(tasks))


def stolen_ns():
    """By the host, from all processors together: proc_stat(5), in ticks."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def offer(folder, pid, *command):
    before = waited_ns(pid), stolen_ns()
    with open(f"{folder}/load.json", "w") as report, open(f"{folder}/load.err", "w") as errors:
        code = subprocess.run(command, stdout=report, stderr=errors).returncode
    waited, stolen = (after - before for after, before in zip((waited_ns(pid), stolen_ns()), before))
    with open(f"{folder}/stalls.json", "w") as file:
        json.dump({"waited_ns": waited, "stolen_ns": stolen}, file)
    return code


def within_law(got, own):
    """At most the rate and a burst in any time, whatever stalls, as near as a receiver can measure whose first frame comes late;
    and no frame that was not sent. The forwarder's account leaves out the headers of further segments of a super-packet."""
    here = got["generated"]
    most = 1.3 * RATE_GBPS * here["seconds"] + 8e-9 * BURST_BYTES
    return 0 < here["gbps"] * here["seconds"] <= most and got["bytes"] <= 1.05 * own["bytes"]


def stalls(got, load, seen):
    """Possible causes of a low rate, and their time in all, in seconds."""
    late = load["timing_error_ns"]["max"]
    seconds = (late + seen["waited_ns"] + seen["stolen_ns"]) / 1e9
    says = f"sender {late / 1e6:.1f} ms late at most, forwarder without a processor for {seen['waited_ns'] / 1e6:.0f} ms"
    says += f", {seen['stolen_ns'] / 1e6:.0f} ms stolen"
    if load["gbps"] < OFFERED_GBPS or got["drops"]["total"] > 0:
        says += f"; {load['gbps'] * 1000:.0f} Mbit/s offered, {got['drops']['total']} frames past the receiver's ring"
        seconds = float("inf")
    return says, seconds


def judge(name, folder, wanted=""):
    got, own, load, seen = (json.load(open(f"{folder}/{which}.json")) for which in ("got", "forward", "load", "stalls"))
    own, here = own["directions"][0], got["generated"]
    says, stalled = stalls(got, load, seen)
    print(f"  {name}: {here['gbps'] * 1000:.2f} Mbit/s through --rate 100mbit ({says})")
    if not within_law(got, own) or (wanted and here["gbps"] > 1.01 * RATE_GBPS):
        return NEVER
    short = here["seconds"] * ((0.99 if wanted else 0.7) - here["gbps"] / RATE_GBPS)
    if short <= 0:
        return 0
    return STALLED if stalled >= short else NEVER


commands = {"offer": offer, "judge": judge}
sys.exit(commands[sys.argv[1]](*sys.argv[2:]))
