"""Messages and memory of vhost-user, written from the specification (docs/interop/vhost-user.rst of QEMU), for both ends."""

import array
import ctypes
import mmap
import os
import random
import socket
import struct
import time

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL = 8, 9, 10, 11, 12, 13
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
SET_LOG_BASE, GET_CONFIG, GET_INFLIGHT_FD, SET_INFLIGHT_FD, ADD_MEM_REG, REM_MEM_REG = 6, 24, 31, 32, 37, 38
VERSION_1, PROTOCOL_FEATURES, PACKED, LOG_ALL = 1 << 32, 1 << 30, 1 << 34, 1 << 26
LOG_SHMFD, REPLY_ACK, CONFIG, INFLIGHT_SHMFD, CONFIGURE_MEM_SLOTS = 1 << 1, 1 << 3, 1 << 9, 1 << 12, 1 << 15
NEED_REPLY = 8
GUEST, USER = 0x1_0000_0000, 0x7000_0000_0000


class Ended(Exception):
    """The other end has closed the connection."""


def state(index, number):
    return struct.pack("<II", index, number)


def words(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def memfd(size, flags=0):
    fd = os.memfd_create("wharf-hostile", flags)
    os.ftruncate(fd, size)
    return fd


class Messages:
    """One connection."""

    def __init__(self, connection):
        self.socket = connection
        connection.settimeout(5)

    def send(self, request, body=b"", fds=(), flags=0):
        data = struct.pack("<III", request, 1 | flags, len(body)) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except OSError as error:
            raise Ended(str(error)) from None

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except TimeoutError:
                raise AssertionError("no answer within 5 s") from None
            except OSError as error:
                raise Ended(str(error)) from None
            if not part:
                raise Ended("closed")
            data += part
        return data

    def reply(self):
        _, _, size = struct.unpack("<III", self.exactly(12))
        return self.exactly(size)

    def ask(self, request, body=b""):
        self.send(request, body)
        return self.reply()

    def tell(self, request, body=b"", fds=()):
        self.send(request, body, fds, NEED_REPLY)
        answer = self.reply()
        assert answer == words(0), f"request {request} is refused: {answer.hex()}"

    def has_ended(self, seconds=5):
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(4096):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        self.socket.close()


class Driver(Messages):
    """A driver's side, with one transmit virtqueue (index 1) of a split ring in memory of its own."""

    def __init__(self, path, features=0, protocol=0):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        deadline = time.monotonic() + 10
        while True:
            try:
                connection.connect(path)
                break
            except OSError:
                assert time.monotonic() < deadline, "nothing listens"
                time.sleep(0.002)
        super().__init__(connection)
        self.send(SET_OWNER)
        self.features = struct.unpack("<Q", self.ask(GET_FEATURES))[0] & (VERSION_1 | PROTOCOL_FEATURES | features)
        self.ask(GET_PROTOCOL_FEATURES)
        self.send(SET_PROTOCOL_FEATURES, words(REPLY_ACK | protocol))
        self.tell(SET_FEATURES, words(self.features))

    def share(self, fd, size):
        self.tell(SET_MEM_TABLE, state(1, 0) + words(GUEST, size, USER, 0), [fd])

    def queue(self, index, entries, at=0):
        """Sets up a virtqueue whose descriptors, available ring and used ring follow one another at `at`."""
        avail = at + 16 * entries
        used = (avail + 6 + 2 * entries + 4095) & ~4095
        self.kick, self.call = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
        self.tell(SET_VRING_NUM, state(index, entries))
        self.tell(SET_VRING_BASE, state(index, 0))
        self.tell(SET_VRING_ADDR, state(index, 0) + words(USER + at, USER + used, USER + avail, 0))
        self.tell(SET_VRING_CALL, words(index), [self.call])
        self.tell(SET_VRING_KICK, words(index), [self.kick])
        self.tell(SET_VRING_ENABLE, state(index, 1))
        return avail, used

    def ring(self):
        try:
            os.eventfd_write(self.kick, 1)
        except BlockingIOError:
            pass

    def close(self):
        super().close()
        for name in ("kick", "call"):
            if hasattr(self, name):
                os.close(getattr(self, name))
                delattr(self, name)


def good_driver(path, frames=3):
    """A driver that keeps the rules sends `frames` frames. Returns the time until the device has used them, from the first attempt to connect."""
    began = time.monotonic()
    driver = Driver(path)
    size = 1 << 20
    fd = memfd(size)
    memory = mmap.mmap(fd, size)
    driver.share(fd, size)
    avail, used = driver.queue(1, 64)
    frame = bytes(12) + bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]) + bytes(46)
    for at in range(frames):
        place = 65536 + 2048 * at
        memory[place : place + len(frame)] = frame
        memory[16 * at : 16 * at + 16] = struct.pack("<QIHH", GUEST + place, len(frame), 0, 0)
        memory[avail + 4 + 2 * at : avail + 6 + 2 * at] = struct.pack("<H", at)
    memory[avail + 2 : avail + 4] = struct.pack("<H", frames)
    while struct.unpack_from("<H", memory, used + 2)[0] != frames:
        driver.ring()
        assert time.monotonic() < began + 10, "a driver that keeps the rules is not served"
        time.sleep(0.001)
    driver.close()
    memory.close()
    os.close(fd)
    return time.monotonic() - began


def fewest_descriptors(process):
    """Returns the fewest descriptors that a process has within half a second: some belong to a connection that is just ending."""
    counts = []
    for _ in range(50):
        counts.append(len(os.listdir(f"/proc/{process}/fd")))
        time.sleep(0.01)
    return min(counts)


def odd(chance):
    """A number that a device may stumble over."""
    return chance.choice(
        [
            chance.getrandbits(64),
            (1 << 64) - 1 - chance.randrange(4),
            GUEST + chance.randrange(1 << 21),
            USER + chance.randrange(1 << 21),
            chance.randrange(4),
            1 << chance.randrange(64),
        ]
    )


def odd_bytes(chance, most):
    return chance.randbytes(chance.randrange(most))


libc = ctypes.CDLL(None, use_errno=True)
Random = random.Random
