"""Measures the rows of shape.sh and prints their medians over the rounds as Markdown.
usage: shape.py WHARF ROUNDS SECONDS SPACE-OF-THE-SENDERS SPACE-OF-THE-FORWARDER SPACE-OF-THE-RECEIVERS [TEXT OF A ROW...]
       shape.py ping ADDRESS SECONDS: prints the round trips of 50 pings a second in ms, as JSON"""
import json
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time


def ping(address, seconds):
    """Round trips of ICMP echoes, each with its time in it. The kernel of the other end answers."""
    icmp, times = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), []
    began = due = time.monotonic()
    while (now := time.monotonic()) < began + seconds + 1:
        if due <= now < began + seconds:
            due += 0.02
            body = struct.pack("!BBHHHd", 8, 0, 0, 9, 9, now)
            words = sum(struct.unpack(f"!{len(body) // 2}H", body))
            words = (words >> 16) + (words & 0xFFFF)
            check = ~(words + (words >> 16)) & 0xFFFF
            icmp.sendto(struct.pack("!BBHHHd", 8, 0, check, 9, 9, now), (address, 0))
        if select.select([icmp], [], [], max(0, min(due - time.monotonic(), 0.02)))[0]:
            packet = icmp.recv(2048)
            if packet[20] == 0 and len(packet) == 36:
                times.append((time.monotonic() - struct.unpack("!d", packet[28:36])[0]) * 1000)
    return times


if sys.argv[1] == "ping":
    print(json.dumps(ping(sys.argv[2], float(sys.argv[3]))))
    sys.exit()

wharf, rounds, seconds, a, b, c = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:7]
wanted = sys.argv[7:]
RATE_BITS = 20e6
# DSCP 1 has the band of DSCP 0 and tells the load from the sparse flow.
LOAD, SPARSE, EF = 1, 0, 46
ENDS = {"packet": ("packet:fa", "packet:fb"), "xdp": ("xdp:fa", "xdp:fb"), "tap": ("tap:ta", "tap:tb")}
ROWS = [
    ("packet", ""),
    ("packet", "--qdisc prio"),
    ("packet", "--qdisc fifo:20"),
    ("packet", "--qdisc fifo:20 --when-full drop-tail"),
    ("packet", "--qdisc prio --when-full drop-tail"),
    ("packet", "--qdisc prio --when-full drop-head"),
    ("packet", "--when-full wait"),
    ("packet", "--qdisc prio --when-full wait"),
    ("xdp", ""),
    ("xdp", "--qdisc prio"),
    ("tap", ""),
    ("tap", "--qdisc prio"),
]


def within(space, *command, **options):
    # Or a busy machine's stalls are in the table.
    return subprocess.Popen(["nice", "-n", "-15", "ip", "netns", "exec", space, *command], text=True, **options)


def run(*command):
    subprocess.run(command, check=True)


def json_of(process):
    """Asks for the end, and returns the report."""
    process.send_signal(signal.SIGINT)
    return json.loads(process.communicate(timeout=20)[0])


def ready(process, line):
    while text := process.stderr.readline():
        if line in text:
            return
    sys.exit(f"no line \"{line}\"")


def host(space, name, number):
    """Gives an end its address; one that the forwarder has made moves to its host first."""
    if subprocess.run(["ip", "-n", space, "link", "show", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        run("ip", "-n", b, "link", "set", name, "netns", space)
        run("ip", "-n", space, "link", "set", name, "address", f"02:00:00:00:00:0{number}", "up")
    run("ip", "-n", space, "addr", "replace", f"10.9.0.{number}/24", "dev", name)
    run("ip", "-n", space, "neigh", "replace", f"10.9.0.{3 - number}", "lladdr", f"02:00:00:00:00:0{3 - number}", "dev", name)


def received(name):
    text = subprocess.run(["ip", "-n", c, "-s", "-j", "link", "show", name], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text)[0]["stats64"]["rx"]["bytes"]


def share(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] if times else float("nan")


def loads(near):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    send = [wharf, "send", "--to", f"packet:{near}", "--seconds", str(seconds + 3)]
    yield within(a, *send, "--src", "192.0.2.1", "--size", "1000", "--rate", "30mbit", "--tos", str(LOAD << 2), **quiet)
    for dscp in (SPARSE, EF):
        yield within(a, *send, "--src", f"192.0.2.{dscp + 2}", "--size", "100", "--rate", "50pps", "--tos", str(dscp << 2), **quiet)
    yield within(a, "iperf3", "-c", "10.9.0.2", "-P", "10", "-t", str(int(seconds + 3)), **quiet)


def row(kind, options):
    near, far = ("ta", "tb") if kind == "tap" else ("ha", "hb")
    for space, name in ((a, "ha"), (c, "hb")):
        run("ip", "-n", space, "addr", "flush", "dev", name)
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    forward = within(b, wharf, "forward", *ENDS[kind], "--rate", "20mbit", *options.split(), "--json", **piped)
    ready(forward, "forwarding")
    host(a, near, 1)
    host(c, far, 2)
    receive = within(c, wharf, "receive", "--from", f"packet:{far}", "--json", **piped)
    ready(receive, "listening")
    server = within(c, "iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    started = list(loads(near))
    time.sleep(1.5)
    before, began = received(far), time.monotonic()
    pings = within(a, sys.executable, __file__, "ping", "10.9.0.2", str(seconds), stdout=subprocess.PIPE)
    pinged = json.loads(pings.communicate()[0])
    used = (received(far) - before) * 8 / (time.monotonic() - began) / RATE_BITS
    got, own = json_of(receive), json_of(forward)
    for process in (*started, server):
        process.terminate()
        process.wait(timeout=20)
    return figures(got, own["directions"][0], pinged, used)


def figures(got, own, pinged, used):
    """Milliseconds by column, the part of the rate, and the two most frequent reasons."""
    by_dscp = {one["dscp"]: one["latency_ns"] for one in got["latency_by_dscp"]}
    ms = lambda dscp, which: by_dscp[dscp][which] / 1e6 if dscp in by_dscp else float("nan")
    times = [ms(LOAD, "p50"), *(ms(dscp, which) for dscp in (SPARSE, EF) for which in ("p50", "p99"))]
    reasons = own["drops"]["by_reason"]
    return [*times, share(pinged, 0.5), share(pinged, 0.99), used], sorted(reasons, key=reasons.get, reverse=True)[:2]


def print_row(kind, options, all_figures):
    # A round in which no ping came back in time has no figure of them.
    columns = ([one for one in column if one == one] or [float("nan")] for column in zip(*(one for one, _ in all_figures)))
    bulk, s50, s99, e50, e99, p50, p99, used = map(statistics.median, columns)
    cells = [f"{bulk:.1f}", f"{s50:.1f} / {s99:.1f}", f"{e50:.1f} / {e99:.1f}", f"{p50:.1f} / {p99:.1f}", f"{used:.3f}"]
    print(f"| {kind} | {options or '(default)'} | {' | '.join(cells)} | {', '.join(all_figures[-1][1])} |", flush=True)


print("| ends | `--rate 20mbit` plus | UDP p50 | sparse p50 / p99 | EF p50 / p99 | ping p50 / p99 | of the rate | drops |")
print("|---|---|---|---|---|---|---|---|")
for kind, options in ROWS:
    if not wanted or any(text in f"{kind} {options or '(default)'}" for text in wanted):
        print_row(kind, options, [row(kind, options) for _ in range(rounds)])
