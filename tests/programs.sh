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

quinn_socket() { in_a "$bin/quinn_socket" 4000000; }

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

for program in backpressure cancel errors broker relay drop_in; do
  began=$SECONDS
  if "$program" >"$out/$program.log" 2>&1; then result=ok; else result=FAILED; failed=1; fi
  echo "-- $program: $result, $((SECONDS - began)) s"
  cat "$out/$program.log"
done

for program in retransmit wedge async_echo quinn_socket smoltcp_device vpn my_device my_qdisc multi_queue metrics; do
  began=$SECONDS
  if "$program" >"$out/$program.log" 2>&1; then result=ok; else result=FAILED; fi
  echo "-- $program: $result, $((SECONDS - began)) s"
  cat "$out/$program.log"
  echo "$program $result" >>"$out/results"
done
tests/programs.py "$out/results" || failed=1
exit ${failed:-0}
