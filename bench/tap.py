"""Runs the contestants of tap.sh in turn and prints medians and ratios as Markdown. Each is what lies between namespaces a and b,
and runs in c."""
import json
import os
import statistics
import subprocess
import sys
import time

wharf, loop, rounds, seconds, a, b, c = sys.argv[1:8]
frame_bytes = sys.argv[8:] or ["2048", "65536"]
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def within(space, *command, **options):
    return subprocess.Popen(["ip", "netns", "exec", space, *command], text=True, **options)


def address(space, name, number):
    ip("-n", space, "addr", "add", f"10.9.0.{number}/24", "dev", name)
    ip("-n", space, "link", "set", name, "up")


def wait_for(name):
    until = time.monotonic() + 20
    while subprocess.run(["ip", "-n", c, "link", "show", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        if time.monotonic() > until:
            sys.exit(f"no {name}")
        time.sleep(0.05)


def spent(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_SECONDS


def iperf():
    """Gigabits per second that arrived."""
    server = within(b, "iperf3", "-s", "-1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    client = within(a, "iperf3", "-c", "10.9.0.2", "-t", seconds, "-J", stdout=subprocess.PIPE)
    try:
        text, _ = client.communicate(timeout=float(seconds) + 10)
    except subprocess.TimeoutExpired:
        client.kill()
        return float("nan")
    finally:
        server.kill()
        server.wait()
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9


def move(name, space, number):
    ip("-n", c, "link", "set", name, "netns", space)
    address(space, name, number)


def join(name, space, number):
    """Joins a TAP to a veth pair by a bridge, for a program that cannot have its TAP moved."""
    ip("-n", c, "link", "add", f"v{name}", "type", "veth", "peer", "name", f"h{name}", "netns", space)
    ip("-n", c, "link", "add", f"b{name}", "type", "bridge")
    for port in (name, f"v{name}"):
        ip("-n", c, "link", "set", port, "master", f"b{name}", "up")
    ip("-n", c, "link", "set", f"b{name}", "up")
    address(space, f"h{name}", number)


def taps(*command, reach=move):
    def one():
        process = within(c, *command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for number, (space, name) in enumerate([(a, "ta"), (b, "tb")], 1):
                wait_for(name)
                time.sleep(0.5)
                reach(name, space, number)
            before = spent(process.pid)
            rate = iperf()
            return rate, (spent(process.pid) - before) / (rate * float(seconds) / 8)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if reach is join:
                for name in ("bta", "btb", "vta", "vtb"):
                    ip("-n", c, "link", "del", name)

    return one


def bridge():
    ip("-n", c, "link", "add", "br0", "type", "bridge")
    ip("-n", c, "link", "set", "br0", "up")
    for number, (space, name) in enumerate([(a, "ta"), (b, "tb")], 1):
        ip("-n", c, "link", "add", f"p{name}", "type", "veth", "peer", "name", name, "netns", space)
        ip("-n", c, "link", "set", f"p{name}", "master", "br0", "up")
        address(space, name, number)
    rate = iperf()
    for name in ("pta", "ptb", "br0"):
        ip("-n", c, "link", "del", name)
    return rate, float("nan")


CEILING, TESTPMD, BRIDGE = "loop, one piece", "testpmd io, net_tap", "bridge of the kernel's"
testpmd = ["dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--file-prefix", f"wharf-{os.getpid()}", "--lcores", "0@0,1@1"]
testpmd += ["--vdev", "net_tap0,iface=ta", "--vdev", "net_tap1,iface=tb", "--"]
testpmd += ["-i", "--forward-mode=io", "--total-num-mbufs=8192", "--nb-cores=1", "--auto-start"]
contestants = {CEILING: taps(loop, "ta", "tb"), "loop, pieces of 1536": taps(loop, "ta", "tb", "1536")}
contestants["wharf"] = taps(wharf, "forward", "tap:ta", "tap:tb")
contestants["wharf, two pollers"] = taps(wharf, "forward", "tap:ta", "tap:tb", "--pollers", "2")
for size in frame_bytes:
    contestants[f"wharf, frames of {size}"] = taps(wharf, "forward", "tap:ta", "tap:tb", "--frame-bytes", size)
contestants |= {TESTPMD: taps(*testpmd, reach=join), BRIDGE: bridge}

figures = {name: [] for name in contestants}
for at in range(int(rounds)):
    print(f"round {at + 1} of {rounds}", file=sys.stderr)
    for name, one in contestants.items():
        figures[name].append(one())
        print(f"  {name}: {figures[name][-1]}", file=sys.stderr, flush=True)
        time.sleep(0.3)


def ratio(name, peer):
    """Pair by pair: the machine's speed drifts between rounds."""
    return statistics.median(mine[0] / theirs[0] for mine, theirs in zip(figures[name], figures[peer]))


print("| | Gbit/s | of the ceiling | of testpmd | of the bridge | CPU seconds per GB |")
print("|---|---|---|---|---|---|")
for name, rows in figures.items():
    rate, cost = (statistics.median(column) for column in zip(*rows))
    ratios = [f"{ratio(name, peer):.2f}" for peer in (CEILING, TESTPMD, BRIDGE)]
    print(f"| {name} | {rate:.2f} | {' | '.join(ratios)} | {'' if cost != cost else f'{cost:.3f}'} |")
