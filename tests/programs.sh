#!/usr/bin/env bash
# The programs of `programs/`: builds them with crates of other people, runs each one, in network namespaces where it needs
# interfaces, and counts the lines of ten (tests/programs.py says by which rule). Needs root. Leaves nothing behind; every command has
# a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
# The command line is not needed.
WHARF=none
. tests/rig.sh
bin=$PWD/target/programs/debug
cargo build --quiet --manifest-path programs/Cargo.toml --target-dir target/programs || exit 1

# In space a: va, whose other end is vb in space b. Space b has a TCP echo server. Space c has both ends of its pairs.
space $a && space $b && space $c
pair $a va $b vb && pair $c va $c vb
ip -n $c link add qa numtxqueues 4 numrxqueues 4 type veth peer name qb numtxqueues 4 numrxqueues 4 &&
  ip -n $c link set qa arp off up && ip -n $c link set qb arp off up || die "no veth with four queues"
ip -n $a link add sa type veth peer name sb netns $b && ip -n $a link set sa up && ip -n $b link set sb up &&
  ip -n $a addr add 10.0.0.2/24 dev sa && ip -n $b addr add 10.0.0.1/24 dev sb || die "no veth with addresses"
for space in $a $b $c; do ip -n $space link set lo up; done
start server ready python3 tests/tcp_echo.py serve 7
start sizes ready python3 tests/udp_sizes.py serve 7

# counted SPACE INTERFACE DIRECTION FIELD: prints a counter of the kernel's.
counted() {
  ip -n "$1" -j -s link show "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"][sys.argv[1]][sys.argv[2]])' "$3" "$4"
}

# came: prints how many packets have come from va to vb, or were dropped on the way.
came() { echo $(($(counted $b vb rx packets) + $(counted $a va tx dropped))); }

retransmit() { # by two paths over one interface
  local said before
  before=$(came)
  said=$(in_a "$bin/retransmit" 8 2 xdp:va packet:va,bypass=on) && echo "$said" && [ "${said%% *}" -gt 1000 ] &&
    [ $(($(came) - before)) -eq "${said%% *}" ]
}

wedge() { within 40 ip netns exec $c "$bin/wedge" va vb; }

async_echo() { in_a "$bin/async_echo" 20000; }

quinn_socket() { # in one process; and past the kernel, to a server on a kernel's socket behind a router
  in_a "$bin/quinn_socket" 4000000 || return 1
  ip -n $b link add rb type veth peer name rc netns $c && ip -n $b link set rb up && ip -n $c link set rc up &&
    ip -n $b addr add 10.3.0.1/24 dev rb && ip -n $c addr add 10.3.0.2/24 dev rc && ip -n $c route add default via 10.3.0.1 &&
    ip -n $a route add 10.3.0.0/24 via 10.0.0.1 && ip netns exec $b sysctl -qw net.ipv4.ip_forward=1 || return 1
  within 60 ip netns exec $c "$bin/quinn_socket" serve 10.3.0.2:4433 "$out/certificate" >"$out/serve" 2>&1 &
  local serving=$!
  for _ in $(seq 100); do grep -q listening "$out/serve" && break; sleep 0.05; done
  in_a "$bin/quinn_socket" 4000000 sa 10.3.0.2:4433 "$out/certificate" && wait $serving
}

smoltcp_device() { # by AF_XDP in space a, and by a TAP beside the server
  in_a "$bin/smoltcp_device" xdp:sa 10.0.0.9/24 10.0.0.1:7 2000000 &&
    ip -n $b tuntap add t0 mode tap && ip -n $b addr add 10.0.1.1/24 dev t0 && ip -n $b link set t0 up &&
    within 40 "${there[@]}" "$bin/smoltcp_device" tap:t0,offload=off 10.0.1.9/24 10.0.1.1:7 2000000
}

# tunnel SPACE ADDRESS LOCAL PEER FILE: opens an end of the tunnel, which ends with its input: descriptor $end.
tunnel() {
  ip -n "$1" tuntap add v0 mode tap && ip -n "$1" link set v0 address 02:00:00:00:00:01 arp off mtu 9000 up &&
    ip -n "$1" addr add "$2/24" dev v0 || return 1
  exec {end}> >(within 60 ip netns exec "$1" "$bin/vpn" v0 "$3:5000" "$4:5000" 90 >"$out/$5" 2>&1)
  pid=$!
  for _ in $(seq 100); do grep -q '<->' "$out/$5" && return; sleep 0.05; done
  cat "$out/$5"
  return 1
}

vpn() { # a transfer through the tunnel, and datagrams of all sizes around an MTU and a frame's end; then both ends close, with all memory at home
  local one one_pid
  tunnel $a 10.8.0.1 10.0.0.2 10.0.0.1 vpn-a && one=$end one_pid=$pid &&
    tunnel $b 10.8.0.2 10.0.0.1 10.0.0.2 vpn-b &&
    in_a python3 tests/tcp_echo.py check 10.8.0.2 7 5000000 &&
    in_a python3 tests/udp_sizes.py check 10.8.0.2 7 18-8972 &&
    exec {end}>&- && wait "$pid" && exec {one}>&- && wait "$one_pid"
}

my_device() { within 40 "$bin/my_device" 20000; }

my_qdisc() { within 40 "$bin/my_qdisc"; }

multi_queue() {
  local said
  said=$(within 40 ip netns exec $c "$bin/multi_queue" qa qb 4 20000) && echo "$said" &&
    [ "$said" = $'xdp:qa -> xdp:qb: 20000\nxdp:qa#1 -> xdp:qb#1: 20000\nxdp:qa#2 -> xdp:qb#2: 20000\nxdp:qa#3 -> xdp:qb#3: 20000' ]
}

metrics() { # the text is Prometheus's: each name's samples together, behind its HELP and TYPE
  in_a "$bin/metrics" xdp:va 10000 >"$out/metrics.txt" && python3 - "$out/metrics.txt" <<'P'
import re, sys
kinds, seen, sent = {}, [], 0
for line in open(sys.argv[1]):
    if comment := re.fullmatch(r"# (HELP|TYPE) (\w+) (.+)\n", line):
        kinds[comment[2]] = comment[3]
        continue
    name, labels, value = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\} (\d+)\n', line).groups()
    assert kinds[name] in ("counter", "gauge") and (kinds[name] == "counter") == name.endswith("_total"), line
    assert (name, labels) not in seen and (name == seen[-1][0] or name not in (old for old, _ in seen) if seen else True), line
    seen.append((name, labels))
    if name == "wharf_queue_sent_total":
        sent = int(value)
assert sent == 10000 and len(seen) > 40, (sent, len(seen))
print(f"{len(seen)} samples of {len(kinds)} names")
P
}

backpressure() { within 60 "$bin/backpressure"; }

cancel() { within 60 "$bin/cancel" 20000; }

errors() { in_a "$bin/errors"; }

# begin NAME COMMAND...: starts a program in space a, which ends with its input: descriptor $end.
begin() {
  local name=$1
  shift
  exec {end}> >(within 60 ip netns exec $a "$@" >"$out/$name" 2>&1)
  pid=$!
  for _ in $(seq 100); do grep -q "from\|listening" "$out/$name" && return; sleep 0.05; done
  cat "$out/$name"
  return 1
}

datagrams() { # COUNT GAP_MS PORT: from space b
  within 60 ip netns exec $b python3 - "$@" <<'P'
import socket, sys, time
count, gap_ms, port = map(int, sys.argv[1:])
senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
for number in range(count):
    senders[number % 16].sendto(number.to_bytes(8, "big") + bytes(92), ("10.0.0.2", port))
    time.sleep(gap_ms / 1000)
P
}

broker() { # three workers, one of which is slow: each packet was seen, or lost for a reason
  begin broker "$bin/broker" packet:sa 3 20 && datagrams 5000 0 9999 && exec {end}>&- && wait "$pid" && cat "$out/broker" &&
    [ "$(sed -n 's/ came.*//p' "$out/broker")" -ge 5000 ]
}

relay() { # to two receivers, each packet of which comes 2 ms or so after the one before
  within 60 ip netns exec $b python3 - <<'P' >"$out/receivers" &
import select, socket, time
receivers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for number, receiver in enumerate(receivers):
    receiver.bind(("10.0.0.1", 7001 + number))
came = {receiver: [] for receiver in receivers}
while (ready := select.select(receivers, [], [], 4 if any(came.values()) else 20)[0]):
    for receiver in ready:
        receiver.recv(2000)
        came[receiver].append(time.monotonic())
for times in came.values():
    gaps = sorted(after - before for before, after in zip(times, times[1:]))
    print(len(times), f"{gaps[len(gaps) // 2] * 1e3:.2f}")
P
  local receivers=$!
  begin relay "$bin/relay" udp:10.0.0.2:6000,dest=frame udp:10.0.0.2:6001,dest=frame 10.0.0.2:6001 2000 10.0.0.1:7001 10.0.0.1:7002 &&
    datagrams 100 2 6000 && wait $receivers && exec {end}>&- && wait "$pid" && cat "$out/receivers" "$out/relay" &&
    awk '$1 < 50 || $2 < 1.5 || $2 > 4 { bad = 1 } END { exit bad || NR != 2 }' "$out/receivers"
}

drop_in() { # its interface is deleted and made again meanwhile
  within 60 ip netns exec $a "$bin/drop_in" packet:da 02:00:00:00:00:0d 10.1.0.2:5000 02:00:00:00:00:0e 10.1.0.1:9 4 10000 >"$out/drop_in" 2>&1 &
  local sending=$!
  sleep 0.5
  ip -n $a link del da
  sleep 0.3
  drop_in_pair && wait $sending && cat "$out/drop_in" && grep -q '^gone' "$out/drop_in" && grep -q '^back after' "$out/drop_in"
}
drop_in_pair() { ip -n $a link add da type veth peer name db netns $b && ip -n $a link set da up && ip -n $b link set db up; }
drop_in_pair || die "no veth for drop_in"

# Space a, with sa and ta, behind which space b is two gateways; clients are addresses of b's.
ip -n $a link add ta type veth peer name tb netns $b && ip -n $a link set ta up && ip -n $b link set tb up &&
  ip -n $a addr add 10.2.0.2/24 dev ta && ip -n $b addr add 10.2.0.1/24 dev tb || die "no second veth with addresses"
ip netns exec $a sysctl -qw net.ipv6.conf.sa.disable_ipv6=0 net.ipv6.conf.ta.disable_ipv6=0
ip netns exec $b sysctl -qw net.ipv6.conf.sb.disable_ipv6=0 net.ipv6.conf.tb.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0 \
  net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.sb.rp_filter=0 net.ipv4.conf.tb.rp_filter=0
ip -n $a addr add fd00::2/64 dev sa nodad && ip -n $b addr add fd00::1/64 dev sb nodad &&
  ip -n $a addr add fd02::2/64 dev ta nodad && ip -n $b addr add fd02::1/64 dev tb nodad || die "no addresses of IPv6"
for client in 1 2 3 4 5 6 7 8; do ip -n $b addr add 192.0.2.$client/32 dev lo && ip -n $b addr add 2001:db8::$client/128 dev lo nodad; done
ip -n $a route add 192.0.2.0/24 nexthop via 10.0.0.1 nexthop via 10.2.0.1 &&
  ip -n $a route add 2001:db8::/64 nexthop via fd00::1 nexthop via fd02::1 || die "no routes by two gateways"

questions() { # 64 questions of clients to one address of the server
  within 60 ip netns exec $b python3 - <<'P'
import socket, struct
def ask(client, server):
    asker = socket.socket(socket.AF_INET6 if ":" in client else socket.AF_INET, socket.SOCK_DGRAM)
    asker.bind((client, 0))
    asker.settimeout(5)
    asker.sendto(struct.pack(">6H", 7, 0, 1, 0, 0, 0) + b"\3one\5wharf\4test\0\0\1\0\1", (server, 53))
    answer, sender = asker.recvfrom(600)
    assert sender[0] == server and answer[:2] == b"\0\7" and answer[6:8] == b"\0\1", (client, sender, answer)
for client in range(1, 9):
    for _ in range(4):
        ask(f"192.0.2.{client}", "10.0.0.2")
        ask(f"2001:db8::{client}", "fd00::2")
P
}

name_server() { # clients behind two gateways ask by one of them, and are answered by both; TCP of the host goes on meanwhile
  begin name_server "$bin/name_server" 53 sa ta && in_a python3 tests/tcp_echo.py check 10.0.0.1 7 1000000 && questions &&
    exec {end}>&- && wait "$pid" && cat "$out/name_server" &&
    awk '/^sa: / { sa = $4 } /^ta: / { ta = $4 } END { exit !(sa > 0 && ta > 0 && sa + ta == 64) }' "$out/name_server"
}

fan_out() { # to clients behind both gateways, by each policy: none is lost unnamed
  local policy
  for policy in drop wait 20; do
    in_a "$bin/fan_out" 4 0.5 $policy 192.0.2.1 8 xdp:sa packet:ta >"$out/fan" || return 1
    python3 - "$out/fan" <<'P' || return 1
import re, sys
first, *ports = open(sys.argv[1]).read().splitlines()
print(first, *ports, sep="; ")
given, routed, dropped = int(first.split()[0]), int(first.split()[2]), sum(map(int, re.findall(r"(\d+)\)", first)))
sent = [int(port.split()[1]) for port in ports]
assert given > 100 and given == routed + dropped and min(sent) > 0 and sum(sent) <= routed, (given, routed, dropped, sent)
P
  done
}

for program in backpressure cancel errors broker relay drop_in name_server fan_out \
  retransmit wedge async_echo quinn_socket smoltcp_device vpn my_device my_qdisc multi_queue metrics; do
  began=$SECONDS
  if "$program" >"$out/$program.log" 2>&1; then result=ok; else result=FAILED; fi
  echo "-- $program: $result, $((SECONDS - began)) s"
  cat "$out/$program.log"
  echo "$program $result" >>"$out/results"
done
tests/programs.py "$out/results" || failed=1
exit ${failed:-0}
