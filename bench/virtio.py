"""Runs the pairs of virtio.sh in turn and prints medians and ratios as Markdown."""
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

wharf, rounds, seconds, device_cpu, driver_cpu = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
PATIENCE = 30
out = tempfile.TemporaryDirectory()
sock = os.path.join(out.name, "sock")


def testpmd(name, cpu, vdev, mode, *eal):
    command = ["stdbuf", "-oL", "dpdk-testpmd", "--lcores", f"0@0,1@{cpu}", "--no-pci", f"--file-prefix=wharf{os.getpid()}{name}", "--no-telemetry", "-m", "192",
               *eal, "--vdev", vdev, "--", f"--forward-mode={mode}", "--auto-start", "--stats-period", "1",
               "--total-num-mbufs=16384"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def ours(way, spec, cpu, time_s):
    command = [wharf, "bench", "device", way, spec, "--cpu", cpu, "--seconds", str(time_s), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Dpdk:
    def device(layout):
        return testpmd("device", device_cpu, f"net_vhost0,iface={sock}", "rxonly", "--huge-unlink")

    def driver(layout):
        packed = f",packed_vq={int(layout == 'packed')}"
        return testpmd("driver", driver_cpu, f"net_virtio_user0,path={sock},queue_size=256{packed}", "txonly", "--single-file-segments")

    def mpps(process):
        """Packets received in each second from the first one on; the first second warms up."""
        rates = []
        for line in process.stdout:
            found = re.search(r"Rx-pps:\s+(\d+)", line)
            if found and (int(found[1]) > 0 or rates):
                rates.append(int(found[1]) / 1e6)
            if len(rates) == seconds + 2:
                return statistics.median(rates[2:])
        sys.exit("testpmd has ended")


class Wharf:
    keys = ""

    @classmethod
    def driver(cls, layout):
        packed = ",packed=on" if layout == "packed" else ""
        return ours("--to", f"virtio-user:{sock}{packed}{cls.keys}", driver_cpu, seconds + 30)

    def device(layout):
        return ours("--from", f"vhost-user:{sock}", device_cpu, seconds)

    def mpps(process):
        return json.loads(process.stdout.read())["mpps"]


class InPlace(Wharf):
    """Shares the pool with the device and copies nothing, as DPDK's driver does."""
    keys = ",copy=off"


class Plain(Wharf):
    """The same, and leaves no offload to the device, as DPDK's driver does by default."""
    keys = ",copy=off,offload=off"


def end(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def one(driver, device, layout):
    by_device = device.device(layout)
    began = time.monotonic()
    while not os.path.exists(sock) and time.monotonic() - began < PATIENCE:
        time.sleep(0.05)
    by_driver = driver.driver(layout)
    try:
        return device.mpps(by_device)
    finally:
        end(by_driver)
        end(by_device)
        # A driver leaves the files of its memory behind.
        for path in [sock, *glob.glob(f"/dev/hugepages/wharf{os.getpid()}*")]:
            if os.path.exists(path):
                os.unlink(path)


pairs = {
    "wharf to wharf": (InPlace, Wharf),
    "wharf, copy=on, to wharf": (Wharf, Wharf),
    "DPDK to DPDK": (Dpdk, Dpdk),
    "wharf to DPDK": (Plain, Dpdk),
    "wharf, offload=on, to DPDK": (InPlace, Dpdk),
    "wharf, copy=on, offload=on, to DPDK": (Wharf, Dpdk),
    "DPDK to wharf": (Dpdk, Wharf),
}
only = os.environ.get("ONLY", "").split(";")
rows = [(layout, name) for layout in ("split", "packed") for name in pairs]
figures = {row: [] for row in rows if any(text in ", ".join(row) for text in only)}
for at in range(rounds):
    print(f"round {at + 1} of {rounds}", file=sys.stderr)
    for layout, name in figures:
        figures[layout, name].append(one(*pairs[name], layout))
        print(f"  {layout}, {name}: {figures[layout, name][-1]:.2f} Mpps", file=sys.stderr)

print("| layout | driver to device | Mpps | of DPDK with itself |")
print("|---|---|---|---|")
for (layout, name), mpps in figures.items():
    # Round by round: the machine's speed drifts between them.
    theirs = figures.get((layout, "DPDK to DPDK"), mpps)
    ratio = statistics.median(a / b for a, b in zip(mpps, theirs))
    print(f"| {layout} | {name} | {statistics.median(mpps):.2f} | {ratio:.2f} |")
