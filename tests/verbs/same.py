"""Compares two captures: `same.py SENT RECEIVED TO FROM`. Frames are the same, in order, behind byte 12; before that, those received have the
Ethernet addresses that stand for the IPv4 addresses TO and FROM of the ports."""
import ipaddress
import struct
import sys


def frames(path):
    data = open(path, "rb").read()
    assert struct.unpack_from("<I", data)[0] in (0xA1B2C3D4, 0xA1B23C4D), "no capture"
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def named(address):
    return b"\2\0" + ipaddress.ip_address(address).packed


sent, received = list(frames(sys.argv[1])), list(frames(sys.argv[2]))
addresses = named(sys.argv[3]) + named(sys.argv[4])
assert len(sent) == len(received) > 0, f"{len(received)} of {len(sent)} frames"
for number, (one, other) in enumerate(zip(sent, received)):
    assert other == addresses + one[12:], f"frame {number}: {one.hex()} {other.hex()}"
