"""Numbered streams that were captured where they arrived: tests/guest/streams.sh."""
import bisect
import json
import struct
import time


def arrivals(path):
    """The packets of a capture: time, flow, number, time of the stamp, and whether the bytes behind it are right."""
    data = open(path, "rb").read()
    unit = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}[struct.unpack("<I", data[:4])[0]]
    link_bytes = {1: 14, 101: 0}[struct.unpack("<I", data[20:24])[0]]
    at = 24
    while at + 16 <= len(data):
        seconds, part, length, _ = struct.unpack("<IIII", data[at : at + 16])
        packet = data[at + 16 + link_bytes : at + 16 + length]
        at += 16 + length
        head = (packet[0] & 15) * 4
        payload = packet[head + 8 :]
        if payload[:2] != b"WH":
            yield seconds + part * unit, None, 0, 0, False
            continue
        sequence, made = struct.unpack(">QQ", payload[2:18])
        flow = struct.unpack(">H", packet[head : head + 2])[0], sequence >> 44
        rest = payload[18:]
        yield seconds + part * unit, flow, sequence & (1 << 44) - 1, made / 1e9, rest == (bytes(range(256)) * 8)[: len(rest)]


class Direction:
    """One direction's packets, by flow: number to the times at which it was sent and at which it arrived, on this machine's clock."""

    def __init__(self, path, is_near, bounds):
        """`bounds` are times between which the clocks of both ends go alike."""
        host = time.time() - time.monotonic()
        packets = list(arrivals(path))
        part = lambda arrived, made: bisect.bisect(bounds, arrived if is_near else made + host)
        least = {}
        for arrived, _, _, made, _ in packets:
            least[part(arrived, made)] = min(least.get(part(arrived, made), 1e18), arrived - made)
        self.flows, self.twice, self.changed = {}, 0, 0
        for arrived, flow, number, made, is_right in packets:
            self.changed += not is_right
            if flow is None:
                continue
            offset = least[part(arrived, made)]
            times = (made + offset, arrived) if is_near else (made + host, arrived - offset + host)
            numbers = self.flows.setdefault(flow, {})
            self.twice += number in numbers
            numbers.setdefault(number, times)

    def backs(self, up, until):
        """When each of the flows that had begun went on: the first arrival of a packet that was sent after `up`; infinity if there is none."""
        for flow, numbers in self.flows.items():
            if min(arrived for _, arrived in numbers.values()) < up:
                yield flow, min((arrived for sent, arrived in numbers.values() if sent >= up and arrived < until), default=float("inf"))

    def lost(self):
        """The packets that did not arrive: flow, and time at which they were sent."""
        for flow, numbers in self.flows.items():
            known = sorted((number, sent) for number, (sent, _) in numbers.items())
            known.insert(0, (-1, known[0][1]))
            for (before, since), (after, until) in zip(known, known[1:]):
                for number in range(before + 1, after):
                    yield flow, since + (until - since) * (number - before) / (after - before)


def drops(folder, at):
    """Drops by name that no back end counts, in direction `at` (1: to the driver): of interfaces and queues of the sender's side, and of the
    receiver."""
    sender, receiver = ("far", "near")[at], ("near", "far")[at]
    for link in json.load(open(f"{folder}/{sender}.links.json")):
        yield link["ifname"], link["stats64"]["tx"]["dropped"]
    # The figures of a root are those of all queues below.
    yield f"queues of the {sender} side", sum(one["drops"] for one in json.load(open(f"{folder}/{sender}.queues.json")) if one.get("root"))
    got = json.load(open(f"{folder}/{receiver}_got.json"))["drops"]["by_reason"]
    yield from ((f"{reason} of the receiver", count) for reason, count in got.items())
