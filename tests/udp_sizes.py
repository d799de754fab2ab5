#!/usr/bin/env python3
"""A UDP echo server and its client, for tests: `serve PORT`, or `check HOST PORT BYTES...`, where BYTES is N or FIRST-LAST. The
client fails unless a datagram of each size comes back as it was."""
import os, socket, sys


def serve(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", int(port)))
    print("ready", file=sys.stderr, flush=True)
    while True:
        server.sendto(*server.recvfrom(1 << 16))


def comes_back(client, content):
    for _ in range(5):
        client.send(content)
        try:
            while (came := client.recv(1 << 16)) != content:
                if len(came) == len(content):
                    return False
            return True
        except socket.timeout:
            continue
    return False


def check(host, port, *sizes):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(2)
    client.connect((host, int(port)))
    ranges = [[int(end) for end in size.split("-")] for size in sizes]
    all_sizes = [size for ends in ranges for size in range(ends[0], ends[-1] + 1)]
    missing = [size for size in all_sizes if not comes_back(client, os.urandom(size))]
    if missing:
        sys.exit(f"datagrams of {missing} bytes did not come back as they were")
    print(f"{len(all_sizes)} datagrams there and back")


{"serve": serve, "check": check}[sys.argv[1]](*sys.argv[2:])
