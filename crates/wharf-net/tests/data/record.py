#!/usr/bin/env python3
"""Records what the kernel says of a small topology: dumps of all tables, then events. Needs root and iproute2.

Usage: record.py FILE   makes the namespace wharf-net-record, and removes it.
"""
import ctypes, os, socket, struct, subprocess, sys

SPACE = "wharf-net-record"
SETUP = """
link set lo up
link add a1 type veth peer name b1
link add a2 type veth peer name b2
link set a1 address 02:00:00:00:0a:01
link set a1 up
link set b1 up
link set a2 up
link set b2 up
addr add 10.1.0.1/24 dev a1
addr add 10.2.0.1/24 dev a2
addr add fd01::1/64 dev a1 nodad
route add default via 10.1.0.2
route add 20.0.0.0/8 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2
route add blackhole 21.0.0.0/8
route add 22.0.0.0/8 via inet6 fe80::b dev a2 mtu 1400
nexthop add id 7 via 10.2.0.7 dev a2
route add 23.0.0.0/8 nhid 7
route add 24.0.0.0/8 via 10.2.0.2 table 100
rule add from 10.2.0.1 table 100 pref 1000
route add 2001:db8::/32 via fd01::2
neigh add 10.1.0.2 lladdr 02:00:00:00:0b:01 dev a1
neigh add fd01::2 lladdr 02:00:00:00:0b:01 dev a1
"""
EVENTS = """
route replace 20.0.0.0/8 via 10.2.0.2
route add 25.0.0.0/8 via 10.1.0.2
route del 21.0.0.0/8
neigh change 10.1.0.2 lladdr 02:00:00:00:0b:09 dev a1
nexthop replace id 7 via 10.1.0.7 dev a1
"""
# RTM_GETLINK, GETADDR, GETRULE, GETNEXTHOP, GETROUTE, GETNEIGH, with the bytes that follow the header.
DUMPS = [(18, bytes(16)), (22, bytes(8)), (34, b"\2" + bytes(11)), (34, b"\n" + bytes(11)), (106, bytes(8)), (26, b"\2" + bytes(11)),
    (26, b"\n" + bytes(11)), (30, bytes(12)), (30, b"\7" + bytes(11))]


def ip(lines):
    subprocess.run(["ip", "-n", SPACE, "-batch", "-"], input=lines, text=True, check=True)


def main():
    subprocess.run(["ip", "netns", "add", SPACE], check=True)
    try:
        assert ctypes.CDLL(None).setns(os.open(f"/run/netns/{SPACE}", os.O_RDONLY), 0) == 0
        ip(SETUP)
        groups = sum(1 << group - 1 for group in (1, 3, 5, 7, 8, 9, 11, 19, 32))
        events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        events.bind((0, groups))
        asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        recorded = b""
        for sequence, (kind, fixed) in enumerate(DUMPS, 1):
            asking.send(struct.pack("=IHHII", 16 + len(fixed), kind, 0x301, sequence, 0) + fixed)
            while True:
                part = asking.recv(1 << 16)
                recorded += part
                at, kinds = 0, []
                while at < len(part):
                    length, kind = struct.unpack_from("=IH", part, at)
                    kinds.append(kind)
                    at += length + 3 & ~3
                if 3 in kinds or 2 in kinds:
                    break
        ip(EVENTS)
        events.setblocking(False)
        try:
            while True:
                recorded += events.recv(1 << 16)
        except BlockingIOError:
            pass
        open(sys.argv[1], "wb").write(recorded)
    finally:
        subprocess.run(["ip", "netns", "del", SPACE], check=True)


main()
