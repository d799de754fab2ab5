"""Numbered streams that were captured where they arrived: tests/guest/streams.sh."""
import bisect
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

    def back(self, up, until):
        """When the last of the flows that had begun went on, after `up`; infinity if one did not."""
        begun = [times for times in (sorted(at for _, at in numbers.values()) for numbers in self.flows.values()) if times[0] < up]
        return max((min((at for at in times if up <= at < until), default=float("inf")) for times in begun), default=float("inf"))

    def lost(self):
        """The times at which packets were sent that did not arrive."""
        for numbers in self.flows.values():
            known = sorted((number, sent) for number, (sent, _) in numbers.items())
            known.insert(0, (-1, known[0][1]))
            for (before, since), (after, until) in zip(known, known[1:]):
                for number in range(before + 1, after):
                    yield since + (until - since) * (number - before) / (after - before)
