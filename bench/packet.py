"""Runs the contestants of packet.sh in turn, in its network namespace, and prints medians and ratios as Markdown."""
import json
import os
import re
import statistics
import subprocess
import sys

wharf, probe, folder, rounds, seconds, cpu = sys.argv[1:7]
# The probe's packet: UDP over IPv4, 60 bytes.
PACKET = (
    "{ 2,0,0,0,0,2, 2,0,0,0,0,1, 8,0, 0x45,0,0,46,0,0,0x40,0,64,17,0x50,0x6a,192,0,2,1,198,51,100,1,4,0,0,9,0,26,0,0,"
    " fill(0,18) }"
)
with open(f"{folder}/packet.cfg", "w") as file:
    file.write(PACKET + "\n")


def run(*command):
    """The command's output and its processor time."""
    process = subprocess.Popen(["taskset", "-c", cpu, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {text}")
    return text, usage.ru_utime + usage.ru_stime


def of_probe(way, bypass):
    def one():
        text, _ = run(probe, "va", way, bypass, "64", seconds)
        found = re.search(r"([\d.]+) Mpps ([\d.]+) cpu", text)
        return float(found[1]), float(found[2])

    return one


def of_wharf(*options):
    def one():
        text, cpu_seconds = run(wharf, "send", "--size", "60", "--seconds", seconds, "--json", *options)
        report = json.loads(text)
        assert report["drops"]["total"] == 0, report
        return report["mpps"], cpu_seconds / report["packets"] * 1e6

    return one


def of_trafgen(*options):
    def one():
        count = int(float(seconds) * 700_000)
        config = ["--dev", "va", "--conf", f"{folder}/packet.cfg", "--cpus", "1", "-n", str(count)]
        text, cpu_seconds = run("trafgen", *config, *options)
        found = re.search(r"(\d+) sec, (\d+) usec on CPU\d+ \((\d+) packets\)", text)
        return int(found[3]) / (int(found[1]) + int(found[2]) / 1e6) / 1e6, cpu_seconds / int(found[3]) * 1e6

    return one


CEILING = "probe: ring, copied"
TRAFGEN = "trafgen"
contestants = {
    "probe: sendmmsg": of_probe("mmsg", "0"),
    "probe: ring by reference, version 2": of_probe("ring2", "0"),
    "probe: ring by reference, version 3": of_probe("ring3", "0"),
    CEILING: of_probe("ring2c", "0"),
    "wharf": of_wharf("--to", "packet:va"),
    TRAFGEN: of_trafgen("-q"),
    "probe: sendmmsg, past the qdisc": of_probe("mmsg", "1"),
    "probe: ring, copied, past the qdisc": of_probe("ring2c", "1"),
    "wharf, past the qdisc": of_wharf("--to", "packet:va,bypass=on"),
    "trafgen, past the qdisc": of_trafgen(),
    "wharf, batching off": of_wharf("--to", "packet:va", "--batch", "off"),
}
rates, costs = ({name: [] for name in contestants} for _ in range(2))
for at in range(int(rounds)):
    print(f"round {at + 1} of {rounds}", file=sys.stderr)
    for name, one in contestants.items():
        rate, cost = one()
        rates[name].append(rate)
        costs[name].append(cost)


def against(values, name, peer):
    # Pair by pair: the machine's speed drifts between rounds.
    return statistics.median(mine / theirs for mine, theirs in zip(values[name], values[peer]))


print("| | Mpps | of the ceiling | of trafgen | CPU seconds per million | of the ceiling's |")
print("|---|---|---|---|---|---|")
for name in contestants:
    columns = [f"{statistics.median(rates[name]):.3f}"]
    columns += [f"{against(rates, name, peer):.2f}" for peer in (CEILING, TRAFGEN)]
    columns += [f"{statistics.median(costs[name]):.3f}", f"{against(costs, name, CEILING):.2f}"]
    print(f"| {name} | {' | '.join(columns)} |")
