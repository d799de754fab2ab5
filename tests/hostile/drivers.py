"""Drivers of vhost-user that break every rule, before `wharf receive --from vhost-user:SOCKET`. After each one a driver that keeps the
rules is to be served within a second. Usage: drivers.py WHARF FOLDER SEED COUNT."""

import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time

from silent_fs import SilentFs
from vhost import (
    ADD_MEM_REG, CONFIG, CONFIGURE_MEM_SLOTS, GET_CONFIG, GET_FEATURES, GET_INFLIGHT_FD, GET_VRING_BASE, GUEST, INFLIGHT_SHMFD, LOG_ALL, LOG_SHMFD,
    NEED_REPLY, PACKED, REM_MEM_REG, SET_FEATURES, SET_INFLIGHT_FD, SET_LOG_BASE, SET_MEM_TABLE, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_ENABLE,
    SET_VRING_KICK, SET_VRING_NUM, USER, Driver, Ended, Random, fewest_descriptors, good_driver, memfd, odd, odd_bytes, state, words,
)

GIB = 1 << 30
NEXT_SECONDS = float(os.environ.get("WHARF_NEXT_SECONDS", "1"))


class Device:
    """The command under test."""

    def __init__(self, wharf, path):
        self.path, self.frames, self.longest, self.cases = path, 0, 0.0, 0
        self.log = open(path + ".err", "w+")
        command = [wharf, "receive", "--from", f"vhost-user:{path}", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def serves(self, name):
        assert self.process.poll() is None, f"{name}: ended with {self.process.poll()}"
        took = good_driver(self.path)
        self.frames, self.cases, self.longest = self.frames + 3, self.cases + 1, max(self.longest, took)
        assert took < NEXT_SECONDS, f"{name}: the next driver is served after {took:.2f} s"

    def busy_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return fewest_descriptors(self.process.pid)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        report = json.loads(self.process.communicate(timeout=10)[0])
        assert report["pool"]["out"] == 0, report["pool"]
        assert report["packets"] >= self.frames, (report["packets"], self.frames)


def shrinks(device, folder, gib, is_tmpfs):
    """Shares a region far longer than it costs, sets a virtqueue up in it, and makes the file shorter."""
    size = gib * GIB
    if is_tmpfs:
        path = f"/dev/shm/wharf-hostile-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.unlink(path)
        os.ftruncate(fd, size)
    else:
        fd = memfd(size)
    driver = Driver(device.path)
    driver.share(fd, size)
    driver.queue(1, 256)
    driver.ring()
    os.ftruncate(fd, 0)
    driver.ring()
    assert driver.has_ended(), "the connection goes on without its memory"
    driver.close()
    os.close(fd)
    device.serves(f"shrinks from {gib} GiB")


def is_too_long(device):
    """Shares a region of more than a connection may have."""
    size = 8192 * GIB
    fd = memfd(size)
    driver = Driver(device.path)
    driver.send(SET_MEM_TABLE, state(1, 0) + words(GUEST, size, USER, 0), [fd], NEED_REPLY)
    assert driver.reply() != words(0), "8 TiB are taken"
    assert driver.has_ended(), "the connection goes on after a refusal"
    driver.close()
    os.close(fd)
    device.serves("8 TiB")


def is_silent(device, folder):
    """Shares a file of a file system that never answers."""
    directory = os.path.join(folder, "silent")
    os.mkdir(directory)
    try:
        silent = SilentFs(directory, 1 << 20)
    except OSError as error:
        print(f"  F3 skipped: no FUSE here ({error})")
        return False
    driver = Driver(device.path)
    driver.send(SET_MEM_TABLE, state(1, 0) + words(GUEST, 1 << 20, USER, 0), [silent.fd], NEED_REPLY)
    assert driver.has_ended(), "a file that never answers is taken"
    device.serves("a file system that never answers")
    driver.close()
    silent.end()
    return True


def bombs(device):
    """One bell for 32768 entries, each a chain of 32768 empty descriptors."""
    entries, size = 32768, 1 << 20
    fd = memfd(size)
    memory = mmap.mmap(fd, size)
    driver = Driver(device.path)
    driver.share(fd, size)
    avail, _ = driver.queue(1, entries)
    table = b"".join(struct.pack("<QIHH", GUEST, 0, int(at < entries - 1), (at + 1) % entries) for at in range(entries))
    memory[: len(table)] = table
    memory[avail + 2 : avail + 4] = struct.pack("<H", entries)
    before = device.busy_seconds()
    driver.ring()
    time.sleep(2)
    took = device.busy_seconds() - before
    driver.close()
    memory.close()
    os.close(fd)
    device.serves("chains of 32768 descriptors")
    return took


def by_chance(device, seed):
    """A driver that does what chance says, from one of eight kinds."""
    chance = Random(seed)
    kind = chance.choice(["bytes", "messages", "halves", "rings", "packed", "questions", "notes", "packed notes"])
    has_notes = kind.endswith("notes")
    features = PACKED * kind.startswith("packed") | LOG_ALL * has_notes
    driver = Driver(device.path, features, has_notes * (LOG_SHMFD | CONFIG | INFLIGHT_SHMFD | CONFIGURE_MEM_SLOTS))
    size = 1 << chance.randrange(16, 22)
    fd = memfd(size)
    memory = mmap.mmap(fd, size)
    try:
        if kind == "bytes":
            driver.socket.send(odd_bytes(chance, 4000) or b"x")
        elif kind == "halves":
            driver.share(fd, size)
            whole = struct.pack("<III", chance.randrange(45), 1, chance.randrange(300)) + odd_bytes(chance, 300)
            driver.socket.send(whole[: chance.randrange(1, len(whole))])
            time.sleep(chance.random() * 0.02)
        elif kind == "questions":
            driver.socket.setblocking(False)
            while True:
                driver.socket.send(struct.pack("<III", GET_FEATURES, 1, 0))
        else:
            driver.share(fd, size)
            driver.queue(1, 1 << chance.randrange(3, 9))
            for _ in range(chance.randrange(1, 40)):
                if has_notes and chance.random() < 0.5:
                    note(chance, driver, memory, fd)
                else:
                    step(chance, driver, memory, fd, kind)
    except (Ended, AssertionError, OSError):
        pass  # the device has refused something
    driver.close()
    memory.close()
    os.close(fd)
    device.serves(f"seed {seed}, {kind}")


def near(chance, most, bits=64):
    """A number of so many bits that looks valid, most of the time."""
    number = chance.choice([0, 1, most // 2, most, most + 1, chance.randrange(most + 1)]) if chance.random() < 0.9 else odd(chance)
    return number & ((1 << bits) - 1)


def note(chance, driver, memory, fd):
    """Sends one message about what a back end notes or maps in files of the driver, which looks valid, and an answer nobody reads."""
    size, index = len(memory), chance.randrange(2)
    region = words(GUEST + chance.choice([0, 4096, size]), near(chance, size), USER + chance.choice([0, 4096, size]), near(chance, 4096))
    request, body, fds = chance.choice(
        [
            (SET_LOG_BASE, words(near(chance, size // 8, 61) * 8, near(chance, 64, 61) * 8), [fd]),
            (SET_INFLIGHT_FD, words(near(chance, size), near(chance, 8, 58) * 64) + tables(chance), [fd]),
            (GET_INFLIGHT_FD, words(0, 0) + tables(chance), []),
            (SET_FEATURES, words(driver.features ^ chance.choice([0, LOG_ALL, PACKED])), []),
            (ADD_MEM_REG, words(0) + region, [fd]),
            (REM_MEM_REG, words(0) + region, []),
            (SET_MEM_TABLE, state(1, 0) + words(GUEST, size, USER, 0), [fd]),
            (GET_CONFIG, struct.pack("<III", near(chance, 16, 32), near(chance, 16, 32), 0) + bytes(16), []),
            (GET_VRING_BASE, state(index, 0), []),
            (SET_VRING_BASE, state(index, near(chance, 256, 32)), []),
            (SET_VRING_ENABLE, state(index, chance.randrange(2)), []),
            (SET_VRING_KICK, words(index), [driver.kick]),
        ]
    )
    driver.send(request, body, fds, chance.choice([0, NEED_REPLY]))


def tables(chance):
    """Numbers of virtqueues and of their descriptors."""
    return struct.pack("<HHI", near(chance, 2, 16), near(chance, 256, 16), 0)


def step(chance, driver, memory, fd, kind):
    """Does one thing that no driver should do."""
    if kind != "messages" or chance.random() < 0.3:
        for _ in range(chance.randrange(60)):
            at = chance.randrange(min(len(memory), chance.choice([64, 8192, 1 << 20])) - 8)
            memory[at : at + 8] = words(odd(chance))
        driver.ring()
        return
    index = chance.randrange(4)
    what = chance.randrange(6)
    if what == 0:
        driver.send(chance.randrange(46), odd_bytes(chance, 64), [fd] * chance.randrange(3))
    elif what == 1:
        driver.send(SET_VRING_NUM, state(index, odd(chance) & 0xFFFF_FFFF))
    elif what == 2:
        driver.send(SET_VRING_ADDR, state(index, chance.randrange(2)) + words(odd(chance), odd(chance), odd(chance), 0))
    elif what == 3:
        driver.send(SET_VRING_BASE, state(index, odd(chance) & 0xFFFF_FFFF))
    elif what == 4:
        regions = [words(odd(chance), odd(chance), odd(chance), odd(chance)) for _ in range(chance.randrange(1, 9))]
        driver.send(SET_MEM_TABLE, state(len(regions), 0) + b"".join(regions), [fd] * len(regions))
    else:
        driver.send(SET_VRING_KICK, words(index), [chance.choice([fd, driver.socket.fileno()])])


def main():
    wharf, folder, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    device = Device(wharf, os.path.join(folder, "driver.sock"))
    device.serves("nothing")
    before = device.descriptors()
    for gib in (1, 8, 16, 20, 23, 24, 25, 32, 64, 1024, 2048):
        for is_tmpfs in (False, True):
            shrinks(device, folder, gib, is_tmpfs)
    is_too_long(device)
    print(f"F1: {device.cases - 2} regions of 1 GiB to 2 TiB are made shorter: each survived, the next driver served in {device.longest:.3f} s at most")
    if is_silent(device, folder):
        print("F3: a file system that never answers is refused, the next driver served")
    print(f"F7: a bell for 32768 chains of 32768 descriptors: {bombs(device):.2f} s of processor in 2 s, the next driver served")
    device.longest = 0.0
    for number in range(seed, seed + count):
        by_chance(device, number)
    after = device.descriptors()
    device.end()
    assert after <= before + 2, f"descriptors: {before} before, {after} after"
    print(f"drivers by chance: {count}, seeds {seed} to {seed + count - 1}: the next one served in {device.longest:.3f} s at most; descriptors {before}, {after}")


main()
