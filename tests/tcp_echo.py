#!/usr/bin/env python3
"""A TCP echo server and its client, for tests: `serve PORT`, or `check HOST PORT BYTES`, which fails unless the bytes come back."""
import os, socket, sys, threading


def echo(peer):
    with peer:
        while data := peer.recv(1 << 16):
            peer.sendall(data)


def serve(port):
    server = socket.create_server(("0.0.0.0", int(port)))
    print("ready", file=sys.stderr, flush=True)
    while True:
        threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()


def check(host, port, count):
    content, back = os.urandom(int(count)), bytearray()
    with socket.create_connection((host, int(port)), 20) as peer:
        threading.Thread(target=peer.sendall, args=(content,), daemon=True).start()
        while len(back) < len(content) and (data := peer.recv(1 << 16)):
            back += data
    if back != content:
        sys.exit(f"{len(back)} of {len(content)} bytes came back, or others")
    print(f"{count} bytes there and back")


{"serve": serve, "check": check}[sys.argv[1]](*sys.argv[2:])
