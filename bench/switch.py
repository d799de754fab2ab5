"""Runs the contestants of switch.sh in turn and prints medians and ratios as Markdown."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

wharf, out, rounds, seconds, switch_cpu, ends_cpu = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), int(sys.argv[6])
PATIENCE = 30
PORTS = ("w0", "w1", "w2")
A, B, C = (f"wharf-{letter}-{os.getpid()}" for letter in "abc")


def sock(port):
    return os.path.join(out, port)


def run(*command, **options):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **options)


def wait_for(what, holds):
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            sys.exit(f"switch.py: no {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def running(name, cpu, *command, space=None):
    """A process on a processor, until the end of the block."""
    within = ["ip", "netns", "exec", space] if space else []
    log = open(os.path.join(out, f"{name}.log"), "w")
    process = subprocess.Popen([*within, "taskset", "-c", str(cpu), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clear(*patterns):
    for path in (path for pattern in patterns for path in glob.glob(pattern)):
        os.unlink(path)


@contextlib.contextmanager
def by_wharf():
    """Three ports, as two ends alone are no switch; nobody is at the third."""
    clear(*map(sock, PORTS))
    config = os.path.join(out, "switch.toml")
    ends = [f"vhost-user:{sock(port)}" for port in PORTS]
    with open(config, "w") as file:
        file.write(f'a = "{ends[0]}"\nb = "{ends[1]}"\nports = ["{ends[2]}"]\npoll = "busy"\npollers = 1\ncpu = [{switch_cpu}]\n')
    with running("wharf", switch_cpu, wharf, "forward", "--config", config):
        wait_for("socket of wharf", lambda: all(map(os.path.exists, map(sock, PORTS))))
        yield


@contextlib.contextmanager
def by_ovs(tso=False):
    """Its thread of packets, and all others of its process, on the processor of the switch. It has TSO by ports that connect alone."""
    database, control = os.path.join(out, "conf.db"), f"unix:{out}/db.sock"
    clear(f"{database}*", f"{out}/*.sock", *map(sock, PORTS))
    os.environ |= {"OVS_RUNDIR": out, "OVS_LOGDIR": out, "OVS_DBDIR": out}
    vsctl = ("ovs-vsctl", f"--db={control}", "--timeout=30")
    run("ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema")
    with running("ovsdb", ends_cpu, "ovsdb-server", database, f"--remote=p{control}"):
        wait_for("database of OVS", lambda: os.path.exists(f"{out}/db.sock"))
        other = {"dpdk-init": "true", "dpdk-socket-mem": "384", "pmd-cpu-mask": hex(1 << switch_cpu), "dpdk-lcore-mask": hex(1 << switch_cpu),
                 "dpdk-extra": f"--no-pci --file-prefix=wharfovs{os.getpid()} --huge-unlink", "userspace-tso-enable": str(tso).lower()}
        run(*vsctl, "--no-wait", "init", "--", "set", "Open_vSwitch", ".", *(f'other_config:{key}="{value}"' for key, value in other.items()))
        with running("ovs", switch_cpu, "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", control):
            kinds = {port: [f"options:vhost-server-path={sock(port)}", "type=dpdkvhostuserclient"] if tso else ["type=dpdkvhostuser"] for port in PORTS}
            ports = [word for port in PORTS for word in ("--", "add-port", "br0", port, "--", "set", "Interface", port, *kinds[port])]
            run(*vsctl, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", *ports)
            wait_for("socket of OVS", lambda: tso or all(map(os.path.exists, map(sock, PORTS))))
            yield


def by_ovs_tso():
    return by_ovs(tso=True)


@contextlib.contextmanager
def namespaces(*names):
    try:
        for name in names:
            run("ip", "netns", "add", name)
            # A kernel without IPv6 has neither.
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qe", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name])


def exists(interface, space):
    command = ["ip", "-n", space, "link", "show", interface]
    return lambda: not subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def bridged(space, *taps):
    """Joins TAPs by a bridge that works on the processor of the switch. It keeps frames to a TAP's own address, which DPDK's port has, too."""
    run("ip", "-n", space, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", space, "link", "set", "br0", "up")
    for at, tap in enumerate(taps):
        wait_for(tap, exists(tap, space))
        run("ip", "-n", space, "link", "set", tap, "address", f"02:00:00:00:02:0{at}")
        run("ip", "-n", space, "link", "set", tap, "master", "br0", "up")
        run("ip", "netns", "exec", space, "sh", "-c", f"for at in /sys/class/net/{tap}/queues/rx-*/rps_cpus; do echo {1 << switch_cpu:x} >$at; done")


@contextlib.contextmanager
def ends(*devices, space=None):
    """Starts the two front ends on one thread."""
    vdevs = [word for device in devices for word in ("--vdev", device)]
    within = ["ip", "netns", "exec", space] if space else []
    command = [*within, os.path.join(out, "ends"), "--lcores", f"0@{ends_cpu}", "--no-pci", f"--file-prefix=wharf{os.getpid()}", "--no-telemetry",
               "-m", "192", "--single-file-segments", *vdevs, "--", seconds]
    log = open(os.path.join(out, "ends.log"), "w")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        clear(f"/dev/hugepages/wharf{os.getpid()}*")


def figure(process):
    """Waits for the figure of the second front end."""
    text = process.communicate(timeout=PATIENCE + int(seconds))[0]
    found = re.search(r"received ([0-9.]+) Mpps", text)
    return float(found[1]) if found else sys.exit(f"switch.py: no figure: {text} {open(os.path.join(out, 'ends.log')).read()[-900:]}")


def packets(switch, layout):
    packed = int(layout == "packed")
    devices = (f"net_virtio_user{at},path={sock(port)},queue_size=256,mac=02:00:00:00:01:0{at},packed_vq={packed}" for at, port in enumerate(PORTS[:2]))
    with switch(), ends(*devices) as process:
        return figure(process)


def packets_of_bridge(layout):
    devices = (f"net_tap{at},iface=t{at},mac=02:00:00:00:01:0{at}" for at in range(2))
    with namespaces(C), ends(*devices, space=C) as process:
        bridged(C, "t0", "t1")
        return figure(process)


def knows_the_other():
    """Sends a datagram; the kernel asks for the other's address before, until it has an answer."""
    subprocess.run(["ip", "netns", "exec", A, "bash", "-c", "echo >/dev/udp/10.9.0.2/9"], stderr=subprocess.DEVNULL)
    return "lladdr" in subprocess.run(["ip", "-n", A, "neigh", "show", "10.9.0.2"], capture_output=True, text=True).stdout


def iperf():
    """Gigabits per second that arrived."""
    for number, (space, tap) in enumerate([(A, "ta"), (B, "tb")], 1):
        wait_for(tap, exists(tap, space))
        run("ip", "-n", space, "addr", "add", f"10.9.0.{number}/24", "dev", tap)
        run("ip", "-n", space, "link", "set", tap, "up")
    wait_for("way through the switch", knows_the_other)
    with running("iperf-server", ends_cpu, "iperf3", "-s", "-1", space=B):
        wait_for("server of iperf3", lambda: "5201" in subprocess.run(["ip", "netns", "exec", B, "ss", "-Htln"], capture_output=True, text=True).stdout)
        client = ["ip", "netns", "exec", A, "taskset", "-c", str(ends_cpu), "iperf3", "-c", "10.9.0.2", "-t", seconds, "-O", "1", "-J"]
        text = subprocess.run(client, stdout=subprocess.PIPE, text=True, timeout=int(seconds) + PATIENCE).stdout
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9


def tcp(switch, *keys):
    with namespaces(A, B), switch(), contextlib.ExitStack() as stack:
        for port, space, tap in ((PORTS[0], A, "ta"), (PORTS[1], B, "tb")):
            stack.enter_context(running(f"end-{tap}", ends_cpu, wharf, "forward", ",".join([f"virtio-user:{sock(port)}", *keys]), f"tap:{tap}", space=space))
        return iperf()


def tcp_of_bridge():
    """The far TAPs are the bridge's: each front end has both of its TAPs in the namespace C, and one of them is moved."""
    with namespaces(A, B, C), contextlib.ExitStack() as stack:
        for space, tap, far in ((A, "ta", "fa"), (B, "tb", "fb")):
            stack.enter_context(running(f"end-{tap}", ends_cpu, wharf, "forward", f"tap:{tap}", f"tap:{far}", space=C))
            wait_for(tap, exists(tap, C))
            run("ip", "-n", C, "link", "set", tap, "netns", space)
        bridged(C, "fa", "fb")
        return iperf()


OVS, BRIDGE = "OVS-DPDK", "kernel's bridge over TAPs"
rows = {}
for layout in ("split", "packed"):
    rows |= {(f"64 bytes, {layout}, Mpps", "wharf"): lambda layout=layout: packets(by_wharf, layout)}
    rows |= {(f"64 bytes, {layout}, Mpps", OVS): lambda layout=layout: packets(by_ovs, layout)}
    rows |= {(f"64 bytes, {layout}, Mpps", BRIDGE): lambda layout=layout: packets_of_bridge(layout)}
rows |= {("TCP, Gbit/s", "wharf"): lambda: tcp(by_wharf), ("TCP, Gbit/s", OVS): lambda: tcp(by_ovs)}
rows |= {("TCP, Gbit/s", f"{OVS}, userspace-tso-enable"): lambda: tcp(by_ovs_tso, "server=on"), ("TCP, Gbit/s", BRIDGE): tcp_of_bridge}
only = os.environ.get("ONLY", "")
# The blocks end what they have begun, also when a time limit ends the run.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("switch.py: terminated"))
figures = {row: [] for row in rows if only in " ".join(row)}
try:
    for at in range(rounds):
        print(f"round {at + 1} of {rounds}", file=sys.stderr)
        for row in figures:
            figures[row].append(rows[row]())
            print(f"  {', '.join(row)}: {figures[row][-1]:.3f}", file=sys.stderr)
finally:
    for prefix in ("wharf", "wharfovs"):
        shutil.rmtree(f"/var/run/dpdk/{prefix}{os.getpid()}", ignore_errors=True)

print("| traffic | switch | rate | wharf's rate over it |")
print("|---|---|---|---|")
for (traffic, name), rates in figures.items():
    # Pair by pair: the machine's speed drifts between rounds.
    pairs = zip(figures.get((traffic, "wharf"), rates), rates)
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    print(f"| {traffic} | {name} | {statistics.median(rates):.2f} | {ratio:.2f} |")
