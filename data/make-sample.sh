#!/bin/bash
# Makes a capture of real traffic like sample.pcap: two network namespaces,
# one veth pair, everything stays inside. Needs root, /dev/net/tun, iproute2,
# ethtool, tcpdump, ping, iperf3 and python3.
#
# Usage: make-sample.sh OUT.pcap
set -euo pipefail

out=${1:?usage: make-sample.sh OUT.pcap}
here=wharf-sample-a-$$          # the capturing side
there=wharf-sample-b-$$
work=$(mktemp -d)
servers=()

cleanup() {
    for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$here" 2>/dev/null || true
    ip netns del "$there" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

a() { ip netns exec "$here" "$@"; }
b() { ip netns exec "$there" "$@"; }
# What runs in the background is started without these functions: a function
# would put a shell in between, and the kill would hit the shell.

# Without these the stack hands veth super-packets and unfinished checksums,
# which no wire would ever carry.
offloads_off() {
    "$1" ethtool -K "$2" tso off gso off gro off tx off rx off sg off \
        txvlan off rxvlan off >/dev/null 2>&1 || true
    local left
    left=$("$1" ethtool -k "$2" | grep -E \
        '^(tcp-segmentation|generic-segmentation|generic-receive|tx-checksumming).*: on' || true)
    [ -z "$left" ] || { echo "$2: still on: $left" >&2; exit 1; }
}

# The VLAN sub-interface: a TAP and a relay that puts the tag in and takes it
# out, so that a kernel without its 802.1Q module will do.
vlan_relay() {
    ip netns exec "$1" python3 - veth0 vlan100 100 3 <<'EOF' &
import fcntl, os, select, socket, struct, sys
lower, upper, vid, priority = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID, ETH_P_ALL = 263, 8, 0x10, 3
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", upper.encode(), IFF_TAP | IFF_NO_PI))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
wire.bind((lower, ETH_P_ALL))
wire.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)     # "network is down": not up yet
tag = struct.pack(">HH", 0x8100, priority << 13 | vid)
while True:
    for ready in select.select([tap, wire], [], [])[0]:
        if ready is tap:
            frame = os.read(tap, 2048)
            wire.send(frame[:12] + tag + frame[12:])
            continue
        frame, extra, _, source = wire.recvmsg(2048, 64)
        if source[2] == socket.PACKET_OUTGOING:
            continue
        for _, _, data in extra:    # the kernel has moved the tag in here
            status, _, _, _, _, tci, _ = struct.unpack("IIIHHHH", data)
            if status & VLAN_VALID and tci & 0xFFF == vid:
                os.write(tap, frame)
EOF
    servers+=($!)
    for _ in $(seq 100); do
        ip -n "$1" link show vlan100 >/dev/null 2>&1 && return
        sleep 0.05
    done
    echo "no VLAN relay" >&2
    exit 1
}

# Addresses from the documentation ranges (RFC 5737, RFC 3849); MAC addresses
# locally administered. The VLAN interface's MTU leaves room for the tag, so
# that no frame is longer than 1514 bytes.
setup() {
    ip netns add "$here"
    ip netns add "$there"
    ip -n "$here" link add veth0 address 02:00:00:00:00:0a type veth \
        peer name veth0 address 02:00:00:00:00:0b netns "$there"
    local side space last
    for side in a b; do
        if [ $side = a ]; then space=$here last=1; else space=$there last=2; fi
        "$side" ip link set lo up
        offloads_off $side veth0
        vlan_relay "$space"
        "$side" ip link set vlan100 mtu 1496 address 02:00:00:00:00:0$side
        offloads_off $side vlan100
        "$side" ip addr add 192.0.2.$last/24 dev veth0
        "$side" ip addr add 198.51.100.$last/24 dev vlan100
        "$side" ip addr add 2001:db8::$last/64 dev veth0
        "$side" ip addr add 2001:db8:100::$last/64 dev vlan100
    done
}

# The near end goes up first and is captured before the far end gives it a
# carrier: duplicate address detection and the multicast reports are in the file.
start_capture() {
    a ip link set veth0 up
    ip netns exec "$here" tcpdump -i veth0 -s 0 -U --immediate-mode --time-stamp-precision=micro \
        -w "$work/raw.pcap" 2>"$work/tcpdump.log" &
    capture=$!
    servers+=($capture)
    for _ in $(seq 100); do
        grep -q 'listening on' "$work/tcpdump.log" && break
        sleep 0.05
    done
    b ip link set veth0 up
    a ip link set vlan100 up
    b ip link set vlan100 up
    for port in 5201 5202 5203 5204; do
        ip netns exec "$there" iperf3 -s -p $port >/dev/null 2>&1 &
        servers+=($!)
    done
    sleep 2                     # addresses leave the tentative state
}

# UDP echo at ADDRESS: COUNT requests and answers, payloads growing evenly from
# nothing to LONGEST bytes.
udp_echo() {
    ip netns exec "$there" python3 - "$1" "$2" <<'EOF' &
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7))
s.settimeout(5)
for _ in range(int(sys.argv[2])):
    data, peer = s.recvfrom(2048)
    s.sendto(data, peer)
EOF
    servers+=($!)
    sleep 0.2
    a python3 - "$1" "$2" "$3" <<'EOF'
import random, socket, sys
address, count, longest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.connect((address, 7))
s.settimeout(5)
rng = random.Random(1)
for i in range(count):
    s.send(rng.randbytes(longest * i // (count - 1)))
    s.recv(2048)
EOF
}

# Short TCP connections, each asking for a number of bytes, and two to ports
# without a listener: SYN, FIN and RST are all in the file.
short_connections() {
    ip netns exec "$there" python3 - <<'EOF' &
import socket
s = socket.create_server(("192.0.2.2", 8080))
for i in range(12):
    c, _ = s.accept()
    n = int(c.recv(100))
    c.sendall(bytes(j % 251 for j in range(n)))
    c.close()
EOF
    servers+=($!)
    sleep 0.2
    a python3 - <<'EOF'
import socket
for i in range(12):
    c = socket.create_connection(("192.0.2.2", 8080), 5)
    c.sendall(b"%d\n" % (i * i * 25 + 1))
    while c.recv(4096):
        pass
    c.close()
for port in (8081, 8082):
    try:
        socket.create_connection(("192.0.2.2", port), 5)
    except ConnectionRefusedError:
        pass
EOF
}

traffic() {
    a ping -q -c 20 -i 0.02 -s 18 192.0.2.2
    a ping -q -c 20 -i 0.02 -s 700 192.0.2.2
    a ping -q -c 10 -i 0.02 -s 1472 192.0.2.2
    a ping -q -c 5 -i 0.02 -s 3000 192.0.2.2            # in fragments
    a ping -q -c 20 -i 0.02 -s 56 2001:db8::2
    a ping -q -c 10 -i 0.02 -s 1452 2001:db8::2
    a ping -q -c 20 -i 0.02 -s 56 198.51.100.2
    a ping -q -c 10 -i 0.02 -s 1468 198.51.100.2
    a ping -q -c 10 -i 0.02 -s 200 2001:db8:100::2
    a ip neigh flush dev veth0                          # a second round of ARP and NDP
    short_connections
    udp_echo 192.0.2.2 150 1472
    udp_echo 2001:db8::2 75 1452
    udp_echo 198.51.100.2 75 1468
    # Four at a time, each at a set rate, so that the flows interleave.
    a iperf3 -c 192.0.2.2 -p 5201 -b 2M -t 1 >/dev/null &
    local tcp4=$!
    a iperf3 -c 2001:db8::2 -p 5202 -b 1M -t 1 >/dev/null &
    local tcp6=$!
    a iperf3 -c 198.51.100.2 -p 5203 -b 1M -t 1 >/dev/null &
    local vlan=$!
    a iperf3 -u -c 192.0.2.2 -p 5204 -l 160 -b 512K -t 1 >/dev/null
    wait $tcp4 $tcp6 $vlan
}

# Ethernet's shortest frame is 60 bytes without its check sequence. A network
# card pads to it; a veth does not.
pad() {
    python3 - "$work/raw.pcap" "$out" <<'EOF'
import struct, sys
raw = open(sys.argv[1], "rb").read()
assert raw[:4] == b"\xd4\xc3\xb2\xa1", "not a little-endian microsecond pcap"
done, at = [raw[:24]], 24
while at < len(raw):
    seconds, micros, captured, wire = struct.unpack_from("<4I", raw, at)
    frame = raw[at + 16:at + 16 + captured]
    assert captured == wire == len(frame), f"byte {at}: cut short"
    assert captured <= 1514, f"byte {at}: frame of {captured} bytes"
    frame = frame.ljust(60, b"\0")
    done.append(struct.pack("<4I", seconds, micros, len(frame), len(frame)) + frame)
    at += 16 + captured
open(sys.argv[2], "wb").write(b"".join(done))
print(f"{len(done) - 1} packets, {sum(map(len, done))} bytes")
EOF
}

setup
start_capture
traffic >/dev/null
sleep 0.3
kill "$capture"
wait "$capture" || true
pad
