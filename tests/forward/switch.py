#!/usr/bin/env python3
"""`wharf forward` with three ends and more, a switch: each frame arrives at the hosts that should have it, and at no other.

Usage: tests/forward/switch.py WHARF
Hosts are network namespaces behind veth pairs; raw sockets send and see every frame. Needs root; leaves nothing behind."""
import ctypes, json, os, signal, socket, subprocess, sys, tempfile, time

WHARF, NAME, HOSTS = sys.argv[1], f"wharf-sw-{os.getpid()}", 5
LIBC = ctypes.CDLL(None, use_errno=True)
ALL, TYPE = b"\xff" * 6, b"\x88\xb5"


def run(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True, timeout=40).stdout


def inside(space, call):
    """Calls `call` in a namespace, with what it makes there."""
    own, other = (os.open(at, os.O_RDONLY) for at in ("/proc/self/ns/net", f"/run/netns/{space}"))
    assert LIBC.setns(other, 0) == 0
    try:
        return call()
    finally:
        LIBC.setns(own, 0)
        os.close(own), os.close(other)


def raw(interface):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((interface, 0))
    sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    # Tags that the kernel has taken off come beside the frame (PACKET_AUXDATA).
    sock.setsockopt(263, 8, 1)
    sock.setblocking(False)
    return sock


def mac(number, kind=0):
    return bytes((2, kind, 0, 0, number >> 8, number & 255))


def frame(to, source, number, tag=None):
    head = to + source + (b"" if tag is None else b"\x81\x00" + tag.to_bytes(2, "big")) + TYPE
    return (head + number.to_bytes(4, "big")).ljust(64, b"\0")


def arrived(sock):
    """What a host got: destination, source, tag, number."""
    all = []
    while True:
        try:
            data, beside, _, address = sock.recvmsg(2048, 256)
        except BlockingIOError:
            return all
        if address[2] == socket.PACKET_OUTGOING:
            continue
        tag = None
        for _, kind, aux in beside:
            if kind == 8 and int.from_bytes(aux[:4], sys.byteorder) & 0x10:
                tag = int.from_bytes(aux[16:18], sys.byteorder) & 0xFFF
        if data[12:14] == b"\x81\x00":
            tag, data = int.from_bytes(data[14:16], "big") & 0xFFF, data[:12] + data[16:]
        if data[12:14] == TYPE:
            all.append((data[:6], data[6:12], tag, int.from_bytes(data[14:18], "big")))


class Switch:
    """A run; `words` are ends and options, as on the command line."""

    all = []

    def __init__(self, *words):
        self.all.append(self)
        self.err = tempfile.TemporaryFile("w+")
        command = ["ip", "netns", "exec", NAME, WHARF, "forward", "--json", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.err, text=True)
        self.wait_for("forwarding")

    def log(self):
        self.err.seek(0)
        return self.err.read()

    def wait_for(self, line, times=1):
        for _ in range(400):
            if self.log().count(line) >= times:
                return
            assert self.process.poll() is None, self.log()
            time.sleep(0.05)
        raise AssertionError(f"no line {line!r}: {self.log()}")

    def end(self, received=0):
        """Its ports, and the frames freed by reason, once so many have come. The account adds up, or the exit code says so."""
        until = time.monotonic() + 20
        while received and time.monotonic() < until:
            paths = json.loads(run(f"{WHARF} show {self.process.pid} --json"))["paths"]
            received *= sum(path["received_packets"] + path["drops"].get("spoofed", 0) for path in paths) < received
        self.process.send_signal(signal.SIGINT)
        text = self.process.communicate(timeout=20)[0]
        assert self.process.returncode == 0, (self.process.returncode, self.log())
        ports = json.loads(text)["directions"]
        assert all(port["pool"]["out"] == 0 for port in ports), ports
        drops = {}
        for port in ports:
            for reason, count in port["drops"]["by_reason"].items():
                drops[reason] = drops.get(reason, 0) + count
        return ports, drops


class Rig:
    def __init__(self):
        run(f"ip netns add {NAME}")
        for at in range(HOSTS):
            run(f"ip netns add {NAME}-{at} && ip -n {NAME} link add f{at} type veth peer name eth0 netns {NAME}-{at}")
        for space, interface in [(NAME, f"f{at}") for at in range(HOSTS)] + [(f"{NAME}-{at}", "eth0") for at in range(HOSTS)]:
            run(f"ip netns exec {space} sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1", check=False)
            run(f"ip -n {space} link set {interface} arp off up")
        self.socks = [inside(f"{NAME}-{at}", lambda: raw("eth0")) for at in range(HOSTS)]

    def got(self, count):
        """What each host got, once there are `count` frames, or 20 s have passed; and that no more come."""
        all, until = [[] for _ in range(HOSTS)], time.monotonic() + 20
        while sum(map(len, all)) < count and time.monotonic() < until:
            time.sleep(0.01)
            for host, sock in zip(all, self.socks):
                host += arrived(sock)
        time.sleep(0.1)
        return [host + arrived(sock) for host, sock in zip(all, self.socks)]

    def expect(self, at, data, hosts, what):
        """Sends a frame from host `at`: `hosts` get it, each with a tag or none, and no other."""
        self.socks[at].send(data)
        got = [[seen[2] for seen in host] for host in self.got(len(hosts))]
        want = [[hosts[host]] if host in hosts else [] for host in range(HOSTS)]
        assert got == want, f"{what}: {got}, not {want}"

    def end(self):
        for switch in Switch.all:
            switch.process.kill()
        for space in [NAME] + [f"{NAME}-{at}" for at in range(HOSTS)]:
            run(f"ip netns del {space}", check=False)


def learns(rig):
    switch = Switch(*(f"packet:f{at}" for at in range(3)))
    others = {1: None, 2: None}
    rig.expect(0, frame(mac(1), mac(0), 1), others, "an unknown station")
    rig.expect(1, frame(mac(0), mac(1), 2), {0: None}, "a known one")
    rig.expect(0, frame(mac(1), mac(0), 3), {1: None}, "the other way")
    rig.expect(0, frame(ALL, mac(0), 4), others, "all")
    rig.expect(0, frame(mac(1), mac(0), 5, 7), {1: 7, 2: 7}, "one that is not known in this VLAN")
    rig.expect(2, frame(ALL, mac(1), 6), {0: None, 1: None}, "a station that moves")
    rig.expect(0, frame(mac(1), mac(0), 7), {2: None}, "where it is now")
    rig.expect(2, frame(mac(1), mac(2), 8), {}, "a station at the same port")
    rig.expect(0, frame(bytes((1, 0x80, 0xC2, 0, 0, 14)), mac(0), 9), {}, "the next bridge alone")
    rig.expect(0, frame(mac(1), ALL, 10), {}, "a source that is none")
    ports, drops = switch.end(received=10)
    assert [port["received_packets"] for port in ports] == [7, 1, 2], ports
    assert drops == {"same-port": 1, "link-local": 1, "bad-address": 1}, drops
    print("a switch of three ports: learnt, known, moved, to all, to none")


def many_stations(rig):
    switch = Switch(*(f"packet:f{at}" for at in range(HOSTS)), "--flood-limit", "1000000", "--qdisc", "fifo:4000")
    stations, others = 1000, HOSTS - 1
    for first in range(0, stations, 100):
        for number in range(first, first + 100):
            rig.socks[number % HOSTS].send(frame(ALL, mac(number), number))
        got = [len(host) for host in rig.got(100 * others)]
        assert got == [100 - 100 // HOSTS] * HOSTS, got
    for first in range(0, stations, 100):
        for number in range(first, first + 100):
            # From each host but its own; the source is one that the host has.
            for at in (at for at in range(HOSTS) if at != number % HOSTS):
                rig.socks[at].send(frame(mac(number), mac(at), number))
        for at, host in enumerate(rig.got(100 * others)):
            wrong = [seen for seen in host if int.from_bytes(seen[0][4:], "big") % HOSTS != at]
            assert not wrong and len(host) == 100 // HOSTS * others, (at, len(host), wrong[:3])
    _, drops = switch.end()
    assert not drops, drops
    print(f"{stations} stations at {HOSTS} ports: each frame at its port alone")


def vlans(rig):
    words = ("--vlan", "packet:f0=10", "--vlan", "packet:f1=10", "--vlan", "packet:f2=20", "--vlan", "packet:f3=10+20")
    switch = Switch(*(f"packet:f{at}" for at in range(HOSTS)), *words)
    rig.expect(0, frame(ALL, mac(0), 1), {1: None, 3: 10, 4: 10}, "all of VLAN 10")
    rig.expect(2, frame(ALL, mac(2), 2), {3: 20, 4: 20}, "all of VLAN 20")
    rig.expect(3, frame(mac(0), mac(3), 3, 10), {0: None}, "a tag that ends at the port")
    rig.expect(0, frame(mac(3), mac(0), 4), {3: 10}, "a tag that begins there")
    rig.expect(3, frame(mac(0), mac(3), 5, 20), {2: None, 4: 20}, "a station of another VLAN is none")
    rig.expect(3, frame(ALL, mac(3), 6, 30), {}, "a VLAN that the port is not in")
    rig.expect(3, frame(ALL, mac(3), 7), {}, "no tag where all have one")
    rig.expect(0, frame(ALL, mac(0), 8, 10), {}, "a tag where none has one")
    rig.expect(4, frame(ALL, mac(4), 9), {}, "no VLAN, where all others are in one")
    rig.expect(0, frame(ALL, mac(0), 10, 0), {1: None, 3: 10, 4: 10}, "a priority alone")
    rig.expect(4, frame(ALL, mac(4), 11, 4095), {}, "no VLAN at all")
    _, drops = switch.end(received=11)
    assert drops == {"other-vlan": 4, "no-port": 1}, drops
    print("VLANs: tags begin and end at ports, and no frame leaves its VLAN")


def loop(rig):
    run(f"ip -n {NAME} link add l0 type veth peer name l1 && ip -n {NAME} link set l0 arp off up && ip -n {NAME} link set l1 arp off up")
    switch = Switch("packet:f0", "packet:f1", "packet:l0", "packet:l1", "--flood-limit", "2000")
    assert "two ends of one veth pair" in switch.log(), switch.log()
    rig.socks[1].send(frame(ALL, mac(1), 0))
    time.sleep(1)
    storm = rig.got(0)
    for number in range(100):
        # The storm has taken the addresses to other ports: they are seen again, each time.
        rig.socks[1].send(frame(mac(9), mac(1), number))
        rig.socks[0].send(frame(mac(1), mac(0), 1000 + number))
        time.sleep(0.005)
    got = {seen[3] for seen in rig.got(100)[1] if seen[3] >= 1000}
    ports, drops = switch.end()
    assert len(storm[0]) < 6000 and drops["flood-limit"] > 0, (len(storm[0]), drops)
    print(f"a loop: {len(storm[0])} copies in a second at a host, {len(got)} of 100 frames between hosts arrive")
    run(f"ip -n {NAME} link del l0")


def spoofed(rig):
    switch = Switch("packet:f0", "packet:f1", "tap:guest,mac=02:00:00:00:00:07,ip=10.0.0.7")
    run(f"ip -n {NAME} link set guest address 02:00:00:00:00:07 up && ip -n {NAME} addr add 10.0.0.7/24 dev guest")
    run(f"ip -n {NAME} addr add 10.0.0.8/24 dev guest && ip -n {NAME} neigh add 10.0.0.1 lladdr 02:00:00:00:00:01 dev guest")
    guest = inside(NAME, lambda: raw("guest"))
    for source in ("10.0.0.7", "10.0.0.8"):
        udp = inside(NAME, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind((source, 0))
        for _ in range(10):
            udp.sendto(b"", ("10.0.0.1", 9))
    for number in range(10):
        guest.send(frame(ALL, mac(9), number))
    rig.expect(0, frame(ALL, mac(7), 2), {}, "a station that is the guest's")
    ports, drops = switch.end(received=31)
    assert drops.get("spoofed", 0) >= 10 + 10 + 1 and ports[2]["received_packets"] >= 10, (drops, ports[2])
    print(f"a guest with addresses of its own: {drops['spoofed']} frames with others dropped")


def reloads(rig):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        def write(*ports, more=""):
            file.seek(0), file.truncate()
            file.write('a = "packet:f0"\nb = "packet:f1"\nports = ' + json.dumps([f"packet:{port}" for port in ports]) + "\n" + more)
            file.flush()

        write("f2")
        switch = Switch("--config", file.name)
        rig.expect(2, frame(ALL, mac(2), 1), {0: None, 1: None}, "three ports")
        rig.expect(0, frame(mac(2), mac(0), 2), {2: None}, "a station at the third")
        for ports, line, others in ((("f2", "f3"), "packet:f3: plugged", (2, 3)), (("f3", "f4"), "packet:f4: plugged", (3, 4)), (("f4",), "packet:f3: unplugged", (4,))):
            write(*ports)
            switch.process.send_signal(signal.SIGHUP)
            switch.wait_for(line)
            rig.expect(0, frame(ALL, mac(0), 3), {at: None for at in (1, *others)}, line)
            rig.expect(others[-1], frame(mac(0), mac(4), 4), {0: None}, line)
        rig.expect(0, frame(mac(2), mac(0), 5), {1: None, 4: None}, "a station of a port that is gone")
        rig.expect(2, frame(ALL, mac(2), 6), {}, "a port that is gone")
        # A port that moves to a VLAN, and back; the settings of the file are those of ports that come with it.
        write("f4", more='vlan = ["packet:f4=10"]\nset = ["p3.rate=50mbit"]\n')
        switch.process.send_signal(signal.SIGHUP)
        switch.wait_for("packet:f4: plugged", times=2)
        rig.expect(4, frame(ALL, mac(4), 7), {0: 10, 1: 10}, "a port in a VLAN since the reload")
        rig.expect(0, frame(ALL, mac(0), 8, 10), {1: 10, 4: None}, "a port in a VLAN since the reload")
        ports, drops = switch.end()
        assert [port["device"] for port in ports][:3] == [f"packet:f{at}" for at in (0, 1, 4)], ports
        assert not drops, drops
    print("ports plugged and unplugged by reload: each frame at the ports that there are")


rig = Rig()
try:
    for part in (learns, many_stations, vlans, reloads, loop, spoofed):
        rig.got(0)
        part(rig)
finally:
    rig.end()
