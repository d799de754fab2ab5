#!/usr/bin/env python3
"""Writes captures as many tools write them, and compares the packets that wharf finds in each with tcpdump's count.
Usage: captures.py WHARF FOLDER"""
import json
import pathlib
import re
import struct
import subprocess
import sys

ETHERNET = bytes.fromhex("020000000002020000000001")
UDP = struct.pack("!HHHH", 1000, 2000, 58, 0) + b"x" * 50
IPV4 = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 78, 1, 0, 64, 17, 0, bytes([10, 8, 0, 1]), bytes([10, 8, 0, 2])) + UDP
IPV6 = struct.pack("!IHBB16s16s", 6 << 28, 58, 17, 64, bytes(15) + b"\1", bytes(15) + b"\2") + UDP
FRAME = ETHERNET + b"\x08\0" + IPV4
SLL = b"\0\0\0\1\0\6\2\0\0\0\0\1\0\0"
SLL2 = b"\0\0\0\0\0\3\0\1\0\6\2\0\0\0\0\1\0\0"
LINKS = {
    0: struct.pack("<I", 2) + IPV4, 12: IPV4, 101: IPV6, 108: struct.pack(">I", 2) + IPV4, 228: IPV4, 229: IPV6,
    113: SLL + b"\x86\xdd" + IPV6, 276: b"\x08\0" + SLL2 + IPV4,
}


def header(order="<", magic=0xA1B2C3D4, minor=4, snap=262144, link=1):
    return struct.pack(order + "IHHiIII", magic, 2, minor, 0, 0, snap, link)


def record(data, order="<", time=(1, 0), wire=None, more=b"", swap=False):
    lengths = [len(data), len(data) if wire is None else wire]
    return struct.pack(order + "IIII", *time, *(lengths[::-1] if swap else lengths)) + more + data


def block(kind, body, order="<"):
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def option(code, value, order="<"):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link=1, options=b"", order="<"):
    return block(1, struct.pack(order + "HHI", link, 0, 0) + options, order)


def enhanced(data, at=0, time=1000000, options=b"", order="<"):
    fields = struct.pack(order + "IIIII", at, time >> 32, time & 0xFFFFFFFF, len(data), len(data))
    return block(6, fields + data + bytes(-len(data) % 4) + options, order)


def classic():
    for order in "<>":
        for magic, more in ((0xA1B2C3D4, b""), (0xA1B23C4D, b""), (0xA1B2CD34, bytes(8))):
            yield f"magic {magic:x} {order}", header(order, magic) + record(FRAME, order, more=more) * 3
        for minor in range(4):
            file = header(order, minor=minor) + record(FRAME, order, wire=100, swap=minor < 3) * 2
            yield f"version 2.{minor} {order}", file
        for link, data in LINKS.items():
            yield f"link type {link} {order}", header(order, link=link) + record(data, order) * 2
    for snap in (0, 60, 65535, 0x7FFFFFFF, 0xFFFFFFFF):
        yield f"snap length {snap}", header(snap=snap) + record(FRAME[:60], wire=len(FRAME)) * 2
    for bits in (0x24000001, 0x44000001, 0x04000001):
        yield f"check sequence {bits:x}", header(link=bits) + record(FRAME + bytes(8)) * 2
    times = {"a fraction of 2 s": (1, 2000000), "the year 2106": (0xFFFFFFFF, 999999), "no time": (0, 0)}
    for name, time in times.items():
        yield name, header() + record(FRAME, time=time) * 2
    yield "times that go back", header() + b"".join(record(FRAME, time=(10 - at, 0)) for at in range(5))
    yield "more than the packet", header() + record(FRAME, wire=20) * 2
    yield "records of length 0", header() + record(b"") + record(FRAME) + record(b"", wire=60)
    yield "short frames", header() + b"".join(record(FRAME[:size]) for size in range(1, 20))
    yield "long frames", header() + b"".join(record(FRAME.ljust(size)) for size in (9014, 65535, 262143))
    yield "no packet", header()
    for cut in (3, 16, 20, 16 + len(FRAME) - 1):
        yield f"cut after {cut} bytes", header() + record(FRAME) * 2 + record(FRAME)[:cut]
    yield "a record of 2 GB", header() + record(FRAME) * 2 + struct.pack("<IIII", 1, 0, 2**31, 2**31) + FRAME


def ng():
    for order in "<>":
        start = section(order) + interface(order=order)
        yield f"enhanced {order}", start + enhanced(FRAME, order=order) * 3
        yield f"simple {order}", start + block(3, struct.pack(order + "I", len(FRAME)) + FRAME, order) * 3
        fields = struct.pack(order + "HHIIII", 0, 0, 0, 1000, len(FRAME), len(FRAME))
        yield f"obsolete {order}", start + block(2, fields + FRAME, order) * 3
        flags = option(2, struct.pack(order + "I", 4 << 5), order) + option(0, b"", order)
        yield f"flags {order}", start + enhanced(FRAME + bytes(4), options=flags, order=order) * 2
        yield f"other blocks {order}", start + block(4, bytes(8), order) + block(0xBAD, b"x" * 33, order) + enhanced(FRAME, order=order)
    for link, data in LINKS.items():
        yield f"interface of link type {link}", section() + interface(link) + enhanced(data) * 2
    for unit in (0, 3, 6, 9, 0x80 | 10, 0x80 | 32):
        yield f"unit {unit:x}", section() + interface(options=option(9, bytes([unit])) + option(0, b"")) + enhanced(FRAME, time=5) * 2
    offset = option(14, struct.pack("<q", 1000)) + option(13, b"\4") + option(0, b"")
    yield "offset and check sequence", section() + interface(options=offset) + enhanced(FRAME + bytes(4)) * 2
    yield "two interfaces", section() + interface() * 2 + enhanced(FRAME) + enhanced(FRAME, 1)
    yield "two sections", (section() + interface() + enhanced(FRAME) * 2) * 2
    yield "comments", section() + interface() + enhanced(FRAME, options=option(1, b"a comment") + option(0, b"")) * 2
    yield "cut in a block", section() + interface() + enhanced(FRAME) * 2 + enhanced(FRAME)[:50]


def by_tcpdump(path):
    done = subprocess.run(["tcpdump", "--count", "-r", path], capture_output=True, text=True, errors="replace")
    return int(re.search(r"^(\d+) packets?$", done.stdout + done.stderr, re.M)[1]), done.returncode


def by_wharf(wharf, path):
    """Packets sent and skipped, of a file and of a pipe, and the exit codes."""
    found = []
    for source, stdin in ((path, None), ("-", open(path, "rb"))):
        args = [wharf, "send", "--pcap", source, "--count", "1m", "--to", "null", "--json", "-q", "--frame-bytes", "262656"]
        args += [] if stdin else ["--loop", "1"]
        done = subprocess.run(args, capture_output=True, text=True, stdin=stdin)
        report = json.loads(done.stdout) if done.stdout else {"sent": 0, "skipped": {}}
        found.append((report["sent"] + sum(report["skipped"].values()), done.returncode))
    return found


def main():
    wharf, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    files, faults = 0, []
    for name, data in [*classic(), *((f"pcapng, {name}", data) for name, data in ng())]:
        path = folder / f"{files}.pcap"
        path.write_bytes(data)
        (want, code), found = by_tcpdump(path), by_wharf(wharf, str(path))
        files += 1
        # A file without a packet is an error for a replay alone; an empty pipe is none.
        codes = {code, 1} if want == 0 else {code}
        if any(count != want or got not in codes for count, got in found):
            faults.append(f"{name}: tcpdump {want} (exit code {code}), wharf {found}")
    print(f"captures: {files} files, {len(faults)} of them read otherwise than by tcpdump")
    if faults:
        sys.exit("\n".join(faults))


main()
