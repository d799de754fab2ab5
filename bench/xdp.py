"""Runs the contestants of xdp.sh in turn, in its network namespace, and prints means and ratios as Markdown."""
import json
import os
import re
import statistics
import subprocess
import sys
import time

wharf, probe, rounds, seconds, cpu = sys.argv[1:6]
other = "0" if cpu != "0" else "1"


def run(*command):
    """The command's output and its processor time."""
    process = subprocess.Popen(["taskset", "-c", cpu, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {text}")
    return text, usage.ru_utime + usage.ru_stime


def of_probe(batch, budget):
    def one():
        text, _ = run(probe, "va", batch, budget, seconds)
        found = re.search(r"([\d.]+) Mpps ([\d.]+) cpu seconds per million, ([\d.]+) per kick", text)
        return tuple(float(part) for part in found.groups())

    return one


def of_wharf(*options):
    def one():
        text, cpu_seconds = run(wharf, "send", "--size", "60", "--seconds", seconds, "--json", "--to", "xdp:va", *options)
        report = json.loads(text)
        assert report["drops"]["total"] == 0 and report["mode"] == "copy", report
        return report["mpps"], cpu_seconds / report["packets"] * 1e6, report["packets_per_doorbell"]

    return one


def sent():
    with open("/proc/net/dev") as file:
        row = next(line for line in file if line.strip().startswith("va:"))
    return int(row.split(":")[1].split()[9])


def of_testpmd():
    """testpmd sends by one thread, its worker, which is looked up after a second."""
    lcores = f"0@{other},1@{cpu}"
    options = ["--no-huge", "-m", "1024", "--no-pci", "--file-prefix", f"wharf-bench-{os.getpid()}", "--lcores", lcores]
    # Without busy polling: the kernel has none for a veth, and it stalls there.
    device = ["--vdev", "net_af_xdp0,iface=va,busy_budget=0"]
    send = ["--", "-i", "--forward-mode=txonly", "--txpkts=60", "--nb-cores=1", "--auto-start"]
    process = subprocess.Popen(
        ["dpdk-testpmd", *options, *device, *send], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        started = time.monotonic() + 20
        while sent() - of_testpmd.before < 1000 and time.monotonic() < started:
            time.sleep(0.05)
        time.sleep(0.5)
        of_worker = f"/proc/{process.pid}/task"
        worker = next(tid for tid in os.listdir(of_worker) if "worker" in open(f"{of_worker}/{tid}/comm").read())
        read = lambda: (time.monotonic(), sent(), int(open(f"{of_worker}/{worker}/schedstat").read().split()[0]))
        first = read()
        time.sleep(float(seconds))
        last = read()
    finally:
        process.communicate(b"stop\nquit\n", timeout=20)
    passed, packets, cpu_ns = (end - begin for begin, end in zip(first, last))
    return packets / passed / 1e6, cpu_ns / packets / 1e3, float("nan")


CEILING = "probe: 64 a kick"
TESTPMD = "testpmd, net_af_xdp"
contestants = {
    "probe: 1 a kick": of_probe("1", "0"),
    "probe: 32 a kick": of_probe("32", "0"),
    CEILING: of_probe("64", "2048"),
    "wharf": of_wharf(),
    TESTPMD: of_testpmd,
    "wharf, batching off": of_wharf("--batch", "off"),
}
figures = {name: [] for name in contestants}
for at in range(int(rounds)):
    print(f"round {at + 1} of {rounds}", file=sys.stderr)
    for name, one in contestants.items():
        of_testpmd.before = sent()
        figures[name].append(one())
        # The kernel frees the queue some time after its socket was closed.
        time.sleep(0.3)

mean = {name: [statistics.mean(column) for column in zip(*rows)] for name, rows in figures.items()}
print("| | Mpps | of the ceiling | of testpmd | CPU seconds per million | testpmd's over this | packets per kick |")
print("|---|---|---|---|---|---|---|")
for name, (mpps, cost, kick) in mean.items():
    columns = [f"{mpps:.3f}", f"{mpps / mean[CEILING][0]:.2f}", f"{mpps / mean[TESTPMD][0]:.2f}"]
    columns += [f"{cost:.3f}", f"{mean[TESTPMD][1] / cost:.2f}", "" if kick != kick else f"{kick:.1f}"]
    print(f"| {name} | {' | '.join(columns)} |")
