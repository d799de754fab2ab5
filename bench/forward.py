"""Runs the contestants of forward.sh in turn and prints medians and ratios as Markdown. Each carries what comes from namespaces a
and b to the other, and runs in c."""
import json
import os
import statistics
import subprocess
import sys
import time

wharf, loop, load, rounds, seconds, cpu, a, b, c = sys.argv[1:10]
load_cpus = sys.argv[10:]
other = "0" if cpu != "0" else "1"


def within(space, *command, **options):
    return subprocess.Popen(["ip", "netns", "exec", space, *command], text=True, **options)


def packets(space, name, way):
    text = subprocess.run(["ip", "-n", space, "-s", "-j", "link", "show", name], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text)[0]["stats64"][way]["packets"]


def spent(pid):
    """Seconds of processor time of the process's threads by name."""
    tasks = f"/proc/{pid}/task"
    read = lambda at: (open(f"{tasks}/{at}/comm").read().strip(), int(open(f"{tasks}/{at}/schedstat").read().split()[0]))
    return {name: time_ns / 1e9 for name, time_ns in map(read, os.listdir(tasks))}


def says_so(process):
    """The forwarder prints a line once it runs; its thread's name is known."""
    assert process.stdout.readline(), "it does not start"


def has_worker(process):
    """testpmd prints no line to wait for."""
    forwards(process, "worker")
    time.sleep(2)


def forwards(process, thread):
    """The name of the forwarding thread, which may start some time after the first line of output."""
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        for name in spent(process.pid):
            if thread in name:
                return name
        time.sleep(0.05)
    sys.exit(f"no thread {thread}: {process.stdout.read() if process.poll() is not None and process.stdout else 'it does not start'}")


def carried(process, thread):
    """Mpps received, Mpps sent, and processor seconds of `thread` per million."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    send = ["ring2c", "1", "64", str(float(seconds) + 1.5)]
    ways = [(a, "va"), (b, "vb")]
    sources = []
    for at, load_cpu in enumerate(load_cpus):
        space, name = ways[at % 2]
        sources.append(within(space, "taskset", "-c", load_cpu, load, name, *send, **quiet))
    time.sleep(1)
    count = lambda way: sum(packets(space, name, way) for space, name in ways)
    look = lambda: (time.monotonic(), count("rx"), count("tx"), spent(process.pid)[thread])
    first = look()
    time.sleep(float(seconds))
    last = look()
    for source in sources:
        source.wait()
    passed, arrived, sent, cpu_seconds = (end - begin for begin, end in zip(first, last))
    return arrived / passed / 1e6, sent / passed / 1e6, cpu_seconds / arrived * 1e6


def of(*command, ready, thread):
    def one():
        quiet = subprocess.DEVNULL if ready is has_worker else subprocess.PIPE
        process = within(c, *command, stdin=subprocess.PIPE, stdout=quiet, stderr=subprocess.STDOUT)
        try:
            ready(process)
            return carried(process, forwards(process, thread))
        finally:
            process.terminate()
            process.wait(timeout=20)

    return one


pinned = ["taskset", "-c", cpu]
testpmd = ["dpdk-testpmd", "--no-huge", "-m", "1024", "--no-pci", "--file-prefix", f"wharf-bench-{os.getpid()}"]
testpmd += ["--lcores", f"0@{other},1@{cpu}"]
# Without busy polling: the kernel has none for a veth, and it stalls there.
testpmd += ["--vdev", "net_af_xdp0,iface=fa,busy_budget=0", "--vdev", "net_af_xdp1,iface=fb,busy_budget=0", "--"]
testpmd += ["-i", "--forward-mode=io", "--nb-cores=1", "--auto-start"]
wharf_forward = [wharf, "forward", "xdp:fa", "xdp:fb", "--cpu", cpu]
CEILING, TESTPMD = "loop", "testpmd io, net_af_xdp"
contestants = {
    CEILING: of(*pinned, loop, "fa", "fb", ready=says_so, thread="loop"),
    "wharf": of(*wharf_forward, ready=says_so, thread="wharf-poller"),
    "wharf, 4096 frames": of(*wharf_forward, "--frames", "4096", ready=says_so, thread="wharf-poller"),
    TESTPMD: of(*testpmd, ready=has_worker, thread="worker"),
}
figures = {name: [] for name in contestants}
for at in range(int(rounds)):
    print(f"round {at + 1} of {rounds}", file=sys.stderr)
    for name, one in contestants.items():
        figures[name].append(one())
        print(f"  {name}: {figures[name][-1]}", file=sys.stderr, flush=True)
        # The kernel frees the queue some time after its socket was closed.
        time.sleep(0.3)


def ratio(name, peer):
    """Pair by pair: the machine's speed drifts between rounds."""
    return statistics.median(mine[0] / theirs[0] for mine, theirs in zip(figures[name], figures[peer]))


print("| | Mpps | of the ceiling | of testpmd | Mpps sent to it | CPU seconds per million |")
print("|---|---|---|---|---|---|")
for name, rows in figures.items():
    rate, sent, cost = (statistics.median(column) for column in zip(*rows))
    print(f"| {name} | {rate:.3f} | {ratio(name, CEILING):.2f} | {ratio(name, TESTPMD):.2f} | {sent:.2f} | {cost:.3f} |")
