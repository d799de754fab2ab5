"""Sends frames whose virtio net header lies, by a packet socket on INTERFACE, until the kernel has been offered each ROUNDS
times; prints which of them it took. usage: lies.py INTERFACE ROUNDS"""
import json
import socket
import struct
import sys

SOL_PACKET, PACKET_VNET_HDR = 263, 15
NEEDS_CSUM, TCPV4, UDP, TCPV6, UDP_L4 = 1, 1, 3, 4, 5
ETHERNET_BYTES, IP_BYTES, TCP_BYTES = 14, 20, 20
TRANSPORT_AT = ETHERNET_BYTES + IP_BYTES


def frame(payload_bytes, protocol=6):
    """TCP (or `protocol`) over IPv4, to an unused address."""
    ethernet = bytes.fromhex("020000000009 020000000001 0800")
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, IP_BYTES + TCP_BYTES + payload_bytes, 1, 0, 64, protocol, 0, bytes([192, 0, 2, 9]), bytes([192, 0, 2, 8]))
    tcp = struct.pack(">HHIIBBHHH", 1000, 2000, 0, 0, 5 << 4, 0x10, 1000, 0, 0)
    return ethernet + ip + tcp + bytes(payload_bytes)


def header(flags=NEEDS_CSUM, kind=TCPV4, header_bytes=TRANSPORT_AT + TCP_BYTES, gso_bytes=1000, start=TRANSPORT_AT, offset=16):
    return struct.pack("=BBHHHH", flags, kind, header_bytes, gso_bytes, start, offset)


LIES = {
    "segments of no bytes": header(gso_bytes=0) + frame(5000),
    "segments of 65535 bytes": header(gso_bytes=65535) + frame(5000),
    "segments longer than the MTU": header(gso_bytes=1481) + frame(5000),
    "segments longer than the packet": header(gso_bytes=9000) + frame(1000),
    "another protocol's kind: UDP": header(kind=UDP_L4) + frame(5000),
    "another protocol's kind: IPv6": header(kind=TCPV6) + frame(5000),
    "another protocol's packet: UDP": header() + frame(5000, 17),
    "a kind that there is not": header(kind=77) + frame(5000),
    "no checksum to fill in": header(flags=0) + frame(5000),
    "headers beyond the frame": header() + frame(0)[: TRANSPORT_AT + 4],
    "a checksum beyond the frame": header(kind=0, start=60000) + frame(100),
    "a checksum in the wrong place": header(start=TRANSPORT_AT + 1) + frame(5000),
    "a transport that ends in its header": header() + frame(5000)[: TRANSPORT_AT + 12] + b"\xf0" + frame(5000)[TRANSPORT_AT + 13 : 90],
    "nothing behind the Ethernet header": header(flags=0, kind=0, header_bytes=0) + frame(0)[:ETHERNET_BYTES],
    "a runt": header(flags=0, kind=0, header_bytes=0) + frame(0)[: ETHERNET_BYTES + 3],
    "less than an Ethernet header": header(flags=0, kind=0, header_bytes=0) + frame(0)[:9],
}

interface, rounds = sys.argv[1], int(sys.argv[2])
sends = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sends.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
sends.bind((interface, 0))
taken = dict.fromkeys(LIES, 0)
for _ in range(rounds):
    for name, lie in LIES.items():
        try:
            sends.send(lie)
            taken[name] += 1
        except OSError:
            pass
json.dump(taken, sys.stdout)
