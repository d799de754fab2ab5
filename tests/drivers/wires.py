"""Runs a command with two wires: `wires.py COMMAND...`. The ends of wire N are the socket descriptors 20 + N and 22 + N.

QEMU writes to the sockets that it makes itself (`-netdev stream,addr.type=unix`) without a look whether there is room, and
waits in the write. If the reader at the other end is the same QEMU, it waits for ever. Descriptors that it is given it sets
to not wait."""
import os
import socket
import sys

for wire in range(2):
    for end, one in enumerate(socket.socketpair()):
        os.dup2(one.fileno(), 20 + wire + 2 * end)
os.execvp(sys.argv[1], sys.argv[1:])
