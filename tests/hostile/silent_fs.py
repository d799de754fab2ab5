"""A file system (FUSE, over /dev/fuse itself) with one file, whose contents never come: a read of it, and a page fault in it, last for ever."""

import os
import struct
import threading

from vhost import libc

LOOKUP, GETATTR, STATFS, OPEN, READ, RELEASE, FLUSH, INIT, OPENDIR = 1, 3, 17, 14, 15, 18, 25, 26, 27
DIRECTORY, FILE = 1, 2
MNT_DETACH = 2


def attributes(node, size):
    mode = 0o40755 if node == DIRECTORY else 0o100666
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class SilentFs:
    def __init__(self, directory, size):
        self.directory, self.size = directory, size
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
        if libc.mount(b"silent", directory.encode(), b"fuse", 6, options.encode()) != 0:
            raise OSError("cannot mount")
        threading.Thread(target=self.serve, daemon=True).start()
        self.fd = os.open(f"{directory}/memory", os.O_RDWR)

    def serve(self):
        while True:
            try:
                request = os.read(self.fuse, 1 << 17)
            except OSError:
                return
            _, code, unique, node = struct.unpack_from("<IIQQ", request)
            answer = self.answer(code, node)
            if answer is not None:
                os.write(self.fuse, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)

    def answer(self, code, node):
        if code == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
        if code == LOOKUP:
            return struct.pack("<4QII", FILE, 0, 60, 60, 0, 0) + attributes(FILE, self.size)
        if code == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + attributes(node, self.size)
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", 1, 0, 0)
        if code in (RELEASE, FLUSH):
            return b""
        return None  # READ and STATFS, above all: it stays silent

    def end(self):
        libc.umount2(self.directory.encode(), MNT_DETACH)
        os.close(self.fuse)  # ends what waits, with an error
