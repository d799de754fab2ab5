"""A host beside a router: `serve` answers datagrams; `ask ADDRESS BYTES TTL COUNT` prints what comes back for each datagram: `echo TTL`, or an ICMP
error as `TYPE/CODE from ADDRESS mtu N`."""

import select
import socket
import struct
import sys

PORT, IP_RECVTTL, IP_RECVERR, IPV6_RECVERR, PROBE = 9100, 12, 11, 25, 3


def serve():
    host = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    host.bind(("::", PORT))
    print("ready", flush=True)
    while True:
        data, sender = host.recvfrom(9000)
        host.sendto(data, sender)


def error(data, is_v6):
    """Returns the text of a `struct sock_extended_err`, behind which the address of the router stands."""
    _, _, kind, code, _, info, _ = struct.unpack_from("IBBBBII", data)
    at = 16 + (8 if is_v6 else 4)
    router = socket.inet_ntop(socket.AF_INET6 if is_v6 else socket.AF_INET, data[at:at + (16 if is_v6 else 4)])
    return f"{kind}/{code} from {router} mtu {info}"


def ask(address, length, ttl, count):
    is_v6 = ":" in address
    asker = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
    level = socket.IPPROTO_IPV6 if is_v6 else socket.IPPROTO_IP
    asker.setsockopt(level, IPV6_RECVERR if is_v6 else IP_RECVERR, 1)
    asker.setsockopt(level, 23 if is_v6 else 10, PROBE)
    asker.setsockopt(level, socket.IPV6_RECVHOPLIMIT if is_v6 else IP_RECVTTL, 1)
    asker.setsockopt(level, socket.IPV6_UNICAST_HOPS if is_v6 else socket.IP_TTL, ttl)
    for number in range(count):
        data = bytes([number % 251]) * length
        try:
            asker.sendto(data, (address, PORT))
        except OSError:
            asker.sendto(data, (address, PORT))  # an error of the datagram before
        poll = select.poll()
        poll.register(asker, select.POLLIN | select.POLLERR)
        events = poll.poll(3000)
        if not events:
            print("nothing")
        elif events[0][1] & select.POLLERR:
            control = asker.recvmsg(9000, 512, socket.MSG_ERRQUEUE)[1]
            print(next(error(data, is_v6) for _, kind, data in control if kind in (IP_RECVERR, IPV6_RECVERR)))
        else:
            answer, control, _, _ = asker.recvmsg(9000, 512)
            left = struct.unpack("i", control[0][2])[0]
            print("echo", left if answer == data else "wrong")


match sys.argv[1:]:
    case ["serve"]:
        serve()
    case ["ask", address, length, ttl, count]:
        ask(address, int(length), int(ttl), int(count))
