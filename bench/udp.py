"""Runs the contestants of udp.sh in turn and prints medians and ratios, pair by pair, as Markdown. Rates are of datagrams; where
others use the machine, the processor time is what counts."""
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time

wharf, probe, quinn, rounds, seconds, cpu, gro = sys.argv[1:8]
other = "0" if cpu != "0" else "1"
HOST = "127.0.0.1"
HEADERS = 42
# Datagrams of one message, and bytes of them, at most.
SEGMENTS_MAX, MESSAGE_MAX = 64, 65507


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HOST, 0))
        return str(sock.getsockname()[1])


def run(*command):
    """The command's output and its processor time."""
    process = subprocess.Popen(["taskset", "-c", cpu, *command], stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {text}")
    return text, usage.ru_utime + usage.ru_stime


def of_line(text):
    found = re.search(r"([\d.]+) Mpps ([\d.]+) cpu seconds per million", text)
    return float(found[1]), float(found[2])


def of_probe(way):
    return lambda port, size: of_line(run(probe, "to", HOST, port, way, str(size), seconds)[0])


def of_quinn(port, size):
    return of_line(run(quinn, f"{HOST}:{port}", str(size), seconds)[0])


def segments(size):
    """Returns the number of datagrams of `size` bytes in a message."""
    return min(SEGMENTS_MAX, MESSAGE_MAX // size)


def of_wharf(*options, of_size=lambda size: (1, [])):
    """`of_size` gives the datagrams per packet and the options for that."""

    def one(port, size):
        send = ["send", "--size", str(size + HEADERS), "--seconds", seconds, "--json", "--to", f"udp:{HOST}:{port}", *options]
        datagrams, more = of_size(size)
        text, cpu_seconds = run(wharf, *send, *more)
        report = json.loads(text)
        assert report["drops"]["total"] == 0, report
        return report["mpps"] * datagrams, cpu_seconds / report["packets"] / datagrams * 1e6

    return one


def whole(size):
    """Super-packets as long as quinn-udp's messages. Few at a time, since they are 64 KiB."""
    return segments(size), ["--gso", str(HEADERS + segments(size) * size), "--burst", "8"]


SENDTO, QUINN = "probe: one sendto each", "quinn-udp"
contestants = {
    SENDTO: of_probe("sendto"),
    "probe: sendmmsg": of_probe("sendmmsg"),
    "probe: segments where they lie": of_probe("segments"),
    "probe: segments copied together": of_probe("gathered"),
    "probe: segments written together": of_probe("contiguous"),
    QUINN: of_quinn,
    "wharf, super-packets": of_wharf(of_size=whole),
    "wharf": of_wharf(),
    "wharf, bursts of 64": of_wharf("--burst", "64"),
    "wharf, batching off": of_wharf("--batch", "off"),
}
port = free_port()
sink = subprocess.Popen(["taskset", "-c", other, probe, "sink", HOST, port, gro])
time.sleep(0.3)
figures = {}
try:
    for at in range(int(rounds)):
        print(f"round {at + 1} of {rounds}", file=sys.stderr)
        for size in (18, 1200):
            for name, one in contestants.items():
                if name != QUINN or size == 1200:
                    figures.setdefault((size, name), []).append(one(port, size))
finally:
    sink.kill()

print("| payload bytes | | Mpps | of one sendto | of quinn-udp | CPU seconds per million | sendto's over this | quinn-udp's |")
print("|---|---|---|---|---|---|---|---|")
for (size, name), rows in figures.items():

    def against(peer, column, turned=False):
        theirs = figures.get((size, peer))
        if theirs is None:
            return ""
        pairs = zip(theirs, rows) if turned else zip(rows, theirs)
        return f"{statistics.median(a[column] / b[column] for a, b in pairs):.2f}"

    mpps, cost = (statistics.median(column) for column in zip(*rows))
    columns = [f"{mpps:.3f}", against(SENDTO, 0), against(QUINN, 0), f"{cost:.3f}", against(SENDTO, 1, True), against(QUINN, 1, True)]
    print(f"| {size} | {name} | {' | '.join(columns)} |")
