#!/usr/bin/env python3
"""Writes the packets of a little-endian pcap file as pcapng in ways that no common tool uses: a big-endian section and
then a little-endian one, interfaces that count time in different units and from different seconds, enhanced and
obsolete packet blocks, unknown blocks between.  Usage: pcapng.py IN.pcap OUT.pcapng"""
import struct
import sys


def packets(data):
    unit_ns = 1000 if data[:4] == b"\xd4\xc3\xb2\xa1" else 1
    at = 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        yield seconds, fraction * unit_ns, wire, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def option(order, code, value):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def start(order):
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    nanoseconds = option(order, 9, b"\x09") + option(order, 0, b"")
    later = option(order, 9, b"\x06") + option(order, 14, struct.pack(order + "q", 1000)) + option(order, 0, b"")
    interface = struct.pack(order + "HHI", 1, 0, 0)
    return (
        block(order, 0x0A0D0D0A, section)
        + block(order, 1, interface + nanoseconds)
        + block(order, 1, interface + later)
        + block(order, 1, interface)
    )


def packet(order, number, seconds, ns, wire, data):
    if number % 3 == 0:
        units = seconds * 10**9 + ns
        fields = struct.pack(order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(data), wire)
        return block(order, 6, fields + data)
    if number % 3 == 1:
        units = (seconds - 1000) * 10**6 + ns // 1000
        fields = struct.pack(order + "IIIII", 1, units >> 32, units & 0xFFFFFFFF, len(data), wire)
        end = bytes(-len(data) % 4) + option(order, 2, bytes(4)) + option(order, 0, b"")
        return block(order, 6, fields + data + end)
    units = seconds * 10**6 + ns // 1000
    fields = struct.pack(order + "HHIIII", 2, 0, units >> 32, units & 0xFFFFFFFF, len(data), wire)
    return block(order, 2, fields + data)


def main():
    with open(sys.argv[1], "rb") as source:
        all_packets = list(packets(source.read()))
    with open(sys.argv[2], "wb") as out:
        for order, part in ((">", all_packets[: len(all_packets) // 2]), ("<", all_packets[len(all_packets) // 2 :])):
            out.write(start(order))
            for number, one in enumerate(part):
                out.write(packet(order, number, *one))
                if number % 100 == 7:
                    out.write(block(order, 4, bytes(4)) + block(order, 0x80000000 + number, bytes(number)))


main()
