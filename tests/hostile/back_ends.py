"""Back ends of vhost-user that break every rule, before `wharf send --to virtio-user:SOCKET`, which reconnects. After each one a back end that
keeps the rules is to have a frame within a second. Usage: back_ends.py WHARF FOLDER SEED COUNT."""

import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time

from vhost import (
    GET_FEATURES, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM, GET_VRING_BASE, NEED_REPLY, PACKED, PROTOCOL_FEATURES, REPLY_ACK, SET_MEM_TABLE,
    SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_CALL, SET_VRING_KICK, SET_VRING_NUM, VERSION_1, Random, fewest_descriptors, odd, odd_bytes, words,
)

IN_ORDER, INDIRECT, EVENT_IDX = 1 << 35, 1 << 28, 1 << 29
NEXT_SECONDS = float(os.environ.get("WHARF_NEXT_SECONDS", "1"))
LONGEST = 0.06
# Time after which a device has held (`reopen/backoff.rs`), and a little more.
HOLDS = 1.1


class BackEnd:
    """One connection of a driver, and what it has shared."""

    def __init__(self, listener, features, chance=None):
        self.socket, _ = listener.accept()
        self.features, self.chance = features, chance
        self.regions, self.calls, self.rings, self.bases, self.sizes = [], {}, {}, {}, {}
        self.is_set_up = False
        self.data = b""

    def take(self, seconds):
        """Takes a message, and answers it. Returns False once the driver has gone."""
        self.socket.settimeout(seconds)
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
        except TimeoutError:
            return True
        except OSError:
            return False
        self.data += data
        while len(self.data) >= 12:
            request, flags, size = struct.unpack_from("<III", self.data)
            if len(self.data) < 12 + size:
                break
            body, self.data = self.data[12 : 12 + size], self.data[12 + size :]
            fds = self.note(request, body, fds)
            if not self.answer(request, flags, body):
                return False
        for fd in fds:
            os.close(fd)
        return bool(data)

    def note(self, request, body, fds):
        if request == SET_MEM_TABLE:
            for at in range(struct.unpack_from("<I", body)[0]):
                _, size, user, offset = struct.unpack_from("<4Q", body, 8 + 32 * at)
                self.regions.append((user, size, mmap.mmap(fds[at], size + offset), offset))
            for fd in fds:
                os.close(fd)
            return []
        if request in (SET_VRING_NUM, SET_VRING_BASE):
            index, number = struct.unpack_from("<II", body)
            (self.sizes if request == SET_VRING_NUM else self.bases)[index] = number
        elif request == SET_VRING_ADDR:
            index, _, table, used, avail, _ = struct.unpack("<II4Q", body)
            self.rings[index] = (table, avail, used)
        elif request == SET_VRING_CALL and fds:
            self.calls[body[0]] = fds.pop(0)
        elif request == SET_VRING_KICK and body[0] == 1:
            self.is_set_up = True
        return fds

    def answer(self, request, flags, body):
        number = {
            GET_FEATURES: self.features, GET_PROTOCOL_FEATURES: REPLY_ACK, GET_QUEUE_NUM: 1,
            GET_VRING_BASE: struct.unpack_from("<I", body)[0] if body else 0,
        }.get(request)
        if number is None and not flags & NEED_REPLY:
            return True
        reply = struct.pack("<III", request, 5, 8) + words(number or 0)
        if self.chance and self.chance.random() < 0.04:
            reply = self.wrong(request, number or 0)
        try:
            self.socket.sendall(reply)
            return True
        except OSError:
            return False

    def wrong(self, request, number):
        chance = self.chance
        kinds = [
            struct.pack("<III", request, 5, 8) + words(odd(chance)),
            struct.pack("<III", chance.randrange(45), 5, 8) + words(number),
            struct.pack("<III", request, chance.getrandbits(32), 8) + words(number),
            struct.pack("<III", request, 5, chance.getrandbits(chance.randrange(1, 33))) + odd_bytes(chance, 64),
            struct.pack("<III", request, 5, 8)[: chance.randrange(1, 12)],
            odd_bytes(chance, 5000),
        ]
        return chance.choice(kinds)

    def place(self, user):
        for start, size, memory, offset in self.regions:
            if start <= user < start + size:
                return memory, user - start + offset
        raise LookupError(hex(user))

    def word(self, user):
        memory, at = self.place(user)
        return struct.unpack_from("<H", memory, at)[0]

    def receives(self, seconds):
        """Uses each frame that the driver has sent by the virtqueue 1 of a split ring. Returns their number."""
        until = time.monotonic() + seconds
        _, avail, used = self.rings[1]
        size, base = self.sizes[1], self.bases.get(1, 0)
        while time.monotonic() < until:
            came = (self.word(avail + 2) - base) & 0xFFFF
            if came:
                memory, at = self.place(used)
                for number in range(base, base + came):
                    head = self.word(avail + 4 + 2 * (number % size))
                    struct.pack_into("<II", memory, at + 4 + 8 * (number % size), head, 0)
                struct.pack_into("<H", memory, at + 2, (base + came) & 0xFFFF)
                os.eventfd_write(self.calls[1], 1) if 1 in self.calls else None
                return came
            if not self.take(0.001):
                return 0
        return 0

    def scribble(self):
        chance = self.chance
        for _, _, memory, _ in self.regions:
            for _ in range(chance.randrange(150)):
                reach = min(len(memory), chance.choice([256, 8192, 1 << 18])) - 8
                at = chance.randrange(reach)
                memory[at : at + 8] = words(chance.choice([chance.getrandbits(64), chance.randrange(300), (1 << 64) - 1, odd(chance)]))
        for call in self.calls.values():
            try:
                os.set_blocking(call, False)
                os.eventfd_write(call, 1)
            except OSError:
                pass

    def end(self):
        self.socket.close()
        for _, _, memory, _ in self.regions:
            memory.close()
        for call in self.calls.values():
            os.close(call)


def by_chance(listener, seed):
    chance = Random(seed)
    features = VERSION_1 | PROTOCOL_FEATURES | chance.getrandbits(64) & (PACKED | IN_ORDER | INDIRECT | EVENT_IDX | 0x7FFF)
    if chance.random() < 0.1:
        features = chance.getrandbits(64)
    end = BackEnd(listener, features, chance)
    until = time.monotonic() + 0.003 + LONGEST * chance.random()
    scribbles = chance.random() < 0.8
    while time.monotonic() < until and end.take(0.002):
        if scribbles:
            end.scribble()
    end.end()


def good(listener):
    """A back end that keeps the rules. Returns the time from its accepting a connection to the first frame."""
    listener.settimeout(10)
    end = BackEnd(listener, VERSION_1 | PROTOCOL_FEATURES)
    began = time.monotonic()
    while not end.is_set_up:
        assert end.take(10), "the driver has gone from a back end that keeps the rules"
    assert end.receives(10) > 0, "no frame comes to a back end that keeps the rules"
    took = time.monotonic() - began
    # One that goes sooner is taken for another bad one, and the pause before the next grows.
    while time.monotonic() < began + took + HOLDS:
        end.receives(0.05)
        time.sleep(0.01)
    end.end()
    return took


def main():
    wharf, folder, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    path = os.path.join(folder, "back.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(16)
    log = open(path + ".err", "w+")
    command = [wharf, "send", "--size", "60", "--rate", "20kpps", "--batch", "on", "--seconds", "1h", "--to", f"virtio-user:{path}", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    longest, waited = good(listener), 0.0
    before = fewest_descriptors(process.pid)
    for number in range(seed, seed + count):
        assert process.poll() is None, f"seed {number}: ended with {process.poll()}"
        by_chance(listener, number)
        began = time.monotonic()
        took = good(listener)
        waited, longest = max(waited, time.monotonic() - began - took - HOLDS), max(longest, took)
        assert took < NEXT_SECONDS, f"seed {number}: the next back end has a frame after {took:.2f} s"
        assert waited < NEXT_SECONDS, f"seed {number}: the next back end is connected to after {waited:.2f} s"
    after = fewest_descriptors(process.pid)
    process.send_signal(signal.SIGINT)
    report = json.loads(process.communicate(timeout=20)[0])
    accepted = sum(sender["packets"] for sender in report["senders"])
    ends = report["sent"] + report["drops"]["total"] + report["returned"]
    assert report["pool"]["out"] == 0 and accepted == ends, (accepted, ends, report["pool"])
    assert after <= before + 2, f"descriptors: {before} before, {after} after"
    print(
        f"back ends by chance: {count}, seeds {seed} to {seed + count - 1}: the next one is connected to within {waited:.3f} s, and has a "
        f"frame {longest:.3f} s later at most; {accepted} packets accounted for; descriptors {before}, {after}"
    )


main()
