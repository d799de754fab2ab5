#!/usr/bin/env bash
# `wharf forward` between two hosts, which are network namespaces: iperf3 and files through it, by each pair of devices; what lies
# about itself; rates; links, interfaces and namespaces that go away under traffic; what it costs when idle. Needs root. Leaves
# nothing behind; every command has a bound.
# FILE_MIB=1024 sends a file of that size in place of 64 MiB, SECONDS_EACH=10 makes each iperf3 run longer, and STALL_SECONDS=600
# those in which no second may pass without data. RATE_SECONDS=10 measures --rate for so long, and wants it within 1 %: what a busy
# machine falls short of it is no failure otherwise.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
file_mib=${FILE_MIB:-64} seconds=${SECONDS_EACH:-1} stall_seconds=${STALL_SECONDS:-10} rate_seconds=${RATE_SECONDS:-}
bound=$((40 + seconds + file_mib / 4))

in_a() { within $bound ip netns exec $a "$@"; }
in_c() { within $bound ip netns exec $c "$@"; }

# host SPACE INTERFACE PEER NUMBER: one end of a pair whose other one, PEER, is the forwarder's.
host() {
  ip -n "$1" link add "$2" address "02:00:00:00:00:0$4" type veth peer name "$3" netns $b || die "no veth pair"
  ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=0"
  ip -n "$1" link set "$2" up && ip -n $b link set "$3" up || die "interfaces stay down"
  ip -n "$1" link set lo up
  addresses "$1" "$2" "$4"
}

addresses() { # SPACE INTERFACE NUMBER
  ip -n "$1" addr add "10.9.0.$3/24" dev "$2" && ip -n "$1" addr add "fd09::$3/64" dev "$2" nodad
  ip -n "$1" neigh replace "10.9.0.$((3 - $3))" lladdr "02:00:00:00:00:0$((3 - $3))" dev "$2"
  ip -n "$1" neigh replace "fd09::$((3 - $3))" lladdr "02:00:00:00:00:0$((3 - $3))" dev "$2"
}

mtu() { # BYTES
  for at in "$a ha" "$b fa" "$b fb" "$c hb"; do
    # shellcheck disable=SC2086
    set -- "$1" $at
    ip -n "$2" link set "$3" mtu "$1" || die "no MTU of $1"
  done
}

offloads() { # on|off: the hosts'
  for at in "$a ha" "$c hb"; do
    # shellcheck disable=SC2086
    set -- "$1" $at
    ip netns exec "$2" ethtool -K "$3" tx "$1" tso "$1" gso "$1" >/dev/null 2>&1 || die "no offloads $1"
  done
}

# forward A B ARGUMENTS...: in the middle.
forward() {
  start forward "forwarding" "$wharf" forward --json "$@"
  forwarder=$pid
}

# forwarded [CODE]: ends it; its account must add up.
forwarded() {
  stop forward "$forwarder" INT
  [ $code -eq "${1:-0}" ] || die "forward: exit code $code"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])'
}

iperf() { # NAME ADDRESS ARGUMENTS...: from a to c
  local name=$1 address=$2
  shift 2
  in_c iperf3 -s -1 -J >"$out/server.json" 2>&1 &
  local server=$!
  for _ in $(seq 100); do
    ip netns exec $c ss -ltn | grep -q ':5201' && break
    sleep 0.05
  done
  in_a iperf3 -c "$address" -J -t "$seconds" "$@" >"$out/iperf.json" 2>"$out/iperf.err" || die "$name: iperf3"
  wait $server
  holds iperf 'iperf["end"]["sum_received"]["bytes"] > 100_000 if "sum_received" in iperf["end"] else iperf["end"]["sum"]["bytes"] > 100_000'
  python3 - "$name" "$out/iperf.json" <<'P'
import json, sys
end = json.load(open(sys.argv[2]))["end"]
total = end.get("sum_received") or end["sum"]
lost = f', {total["lost_percent"]:.2f} % lost' if "lost_percent" in total else f', {end["sum_sent"].get("retransmits", 0)} retransmits'
print(f'  {sys.argv[1]}: {total["bits_per_second"] / 1e9:.2f} Gbit/s{lost}')
P
}

all_iperf() { # NAME
  iperf "$1, TCP, IPv4" 10.9.0.2
  iperf "$1, TCP, IPv6" fd09::2
  iperf "$1, TCP, the other way" 10.9.0.2 -R
  iperf "$1, UDP, IPv4" 10.9.0.2 -u -b 100M
  iperf "$1, UDP, IPv6" fd09::2 -u -b 100M -R
}

no_stall() { # NAME: something arrives in every second
  local seconds=$stall_seconds bound=$((bound + stall_seconds))
  iperf "$1, $seconds s without a stall" 10.9.0.2 -i 1
  holds server 'len(server["intervals"]) >= '"$seconds"' and all(one["sum"]["bytes"] > 0 for one in server["intervals"])'
}

file() { # NAME: arrives whole, in both directions at once
  in_c python3 - "$file_mib" <<'P' >"$out/there.txt" &
import hashlib, socket, sys, threading
server = socket.create_server(("10.9.0.2", 7777))
peer, _ = server.accept()
size, digest = int(sys.argv[1]) << 20, hashlib.sha256()
while chunk := peer.recv(1 << 20):
    digest.update(chunk)
    peer.sendall(chunk)
print(digest.hexdigest())
P
  local there=$!
  in_a python3 - "$file_mib" <<'P' >"$out/here.txt" 2>"$out/file.err" || die "$1: the file"
import hashlib, os, socket, sys, threading, time
size = int(sys.argv[1]) << 20
for _ in range(100):
    try:
        peer = socket.create_connection(("10.9.0.2", 7777), timeout=20)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
peer.settimeout(30)
sent, back, block = hashlib.sha256(), hashlib.sha256(), os.urandom(1 << 20)
def echo():
    while chunk := peer.recv(1 << 20):
        back.update(chunk)
thread = threading.Thread(target=echo)
thread.start()
for n in range(size >> 20):
    chunk = n.to_bytes(8, "big") + block[8:]
    sent.update(chunk)
    peer.sendall(chunk)
peer.shutdown(socket.SHUT_WR)
thread.join()
print(sent.hexdigest(), back.hexdigest())
P
  wait $there || die "$1: the other end"
  read -r sent back <"$out/here.txt"
  [ "$sent" = "$back" ] && [ "$sent" = "$(cat "$out/there.txt")" ] || die "$1: other bytes arrived"
  echo "  $1: $file_mib MiB there and back, the same hash"
}

jumbo() { # NAME: frames of 9000 bytes
  iperf "$1, MTU 9000, TCP, IPv4" 10.9.0.2
  iperf "$1, MTU 9000, TCP, IPv6, the other way" fd09::2 -R
  iperf "$1, MTU 9000, UDP, IPv6" fd09::2 -u -b 100M -l 8900
  iperf "$1, MTU 9000, UDP, IPv4, the other way" 10.9.0.2 -u -b 100M -l 8900 -R
  file "$1, MTU 9000"
  forwarded
}

between() { # NAME A B ARGUMENTS...
  local name=$1
  shift
  forward "$@"
  all_iperf "$name"
  file "$name"
  forwarded
}

# receive_in_c NAME INTERFACE: its process is $receiver.
receive_in_c() {
  there=(ip netns exec $c)
  receive "$1" "packet:$2"
  there=(ip netns exec $b) receiver=$pid
}

# rate_of NAME ARGUMENTS...: what arrives through `--rate 100mbit` of three times as much, by the receiver: no more than that and
# the burst, as near as a receiver can say that comes late on a busy machine, and within 1 % where it is measured for long. What the
# forwarder says of itself agrees, but for the headers of what the device cuts.
rate_of() {
  local name=$1
  shift
  receive_in_c got hb
  in_a "$wharf" send --to packet:ha --json --seconds "${rate_seconds:-1}" --rate 300mbit "$@" >"$out/load.json" 2>"$out/load.err" ||
    die "$name: the sender"
  sleep 0.3
  stop got "$receiver" INT
  forwarded
  holds got forward 'got["gbps"] * got["seconds"] <= 0.13 * got["seconds"] + 8e-9 * 52000
    and abs(forward["directions"][0]["gbps"] / got["gbps"] - 1) < 0.25'
  python3 - "$name" "$out" "$rate_seconds" <<'P' || die "$name: not within 1 %"
import json, sys
name, out, seconds = sys.argv[1:]
got, own = (json.load(open(f"{out}/{which}.json")) for which in ("got", "forward"))
own = own["directions"][0]
print(f'  {name}: {got["gbps"] * 1000:.2f} Mbit/s through --rate 100mbit, {own["gbps"] * 1000:.2f} by its own account')
# Of a super-packet that the device cuts, its own account has no further headers.
is_own = own["packets"] >= got["packets"]
sys.exit(bool(seconds) and not all(0.099 <= rate <= 0.101 for rate in [got["gbps"]] + is_own * [own["gbps"]]))
P
}

rates() { # KIND
  local size
  for size in 64 590 1514; do
    forward "$1:fa" "$1:fb" --rate 100mbit
    rate_of "$1, $size bytes" --size $size
  done
}

super_rates() { # super-packets: longer than the burst, and shorter
  forward packet:fa,gso=keep packet:fb,gso=keep --rate 100mbit
  rate_of "packet, super-packets of 60 KiB" --size 1514 --gso 60k --frames 1024
  holds forward '0 < 30 * forward["directions"][0]["cut_packets"] < forward["directions"][0]["pieces"]'
  forward packet:fa,gso=keep xdp:fb --rate 100mbit
  rate_of "packet to xdp, super-packets of 16 KiB" --size 1514 --gso 16k --frames 1024
  holds forward 'forward["directions"][0]["cut_packets"] == 0'
}

short_of_memory() { # all of it waits for the token bucket, while packets of many buffers come
  local before
  forward packet:fa,gso=keep packet:fb --rate 100mbit --frames 128
  to=packet:ha
  send flood --size 1514 --gso 60k --frames 1024 --rate 300mbit --seconds 1
  sleep 0.5
  before=$(received hb)
  send after --size 1514 --gso 60k --frames 1024 --rate 50mbit --count 400
  arrived hb $((before + 1))
  [ "$(received hb)" -gt "$before" ] || die "nothing is received any more once memory was short"
  forwarded
  echo "packet: less memory than what comes: it waits, and goes on"
}

tap_host() { # SPACE INTERFACE NUMBER: a TAP that the forwarder has made goes to its host
  ip -n $b link set "$2" netns "$1" || die "$2 stays"
  ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=0"
  ip -n "$1" link set "$2" address "02:00:00:00:00:0$3" up || die "$2 stays down"
  addresses "$1" "$2" "$3"
}

taps() { # to an AF_XDP queue, whose frames cannot be super-packets, and to each other
  ip -n $a addr flush dev ha
  forward tap:ta xdp:fb
  tap_host $a ta 1
  all_iperf "tap, xdp"
  no_stall "tap, xdp"
  file "tap, xdp"
  lies "tap, xdp" ta hb
  mtu 9000
  forward tap:ta,mtu=9000 xdp:fb
  tap_host $a ta 1
  jumbo "tap, xdp"
  mtu 1500
  ip -n $c addr flush dev hb
  forward tap:ta tap:tb
  tap_host $a ta 1
  tap_host $c tb 2
  all_iperf tap
  no_stall tap
  file tap
  lies tap ta tb
  forward tap:ta,mtu=9000 tap:tb,mtu=9000
  tap_host $a ta 1
  tap_host $c tb 2
  jumbo tap
  "${there[@]}" "$wharf" forward tap:ta tap:tb --frames 127 --frame-bytes 2048 2>"$out/few.err" && die "127 frames are enough"
  grep -q "127 frames of 2048 B are too few" "$out/few.err" || die "too few frames: no such message"
  mtu 1500
  forward tap:ta tap:tb --frames 128 --frame-bytes 2048 --pollers 2
  tap_host $a ta 1
  tap_host $c tb 2
  iperf "tap, the least memory, both ways" 10.9.0.2 --bidir
  forwarded
}

received() { # INTERFACE: packets, in c
  ip -n $c -j -s link show "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])'
}

arrived() { # INTERFACE COUNT: waits, 20 s at most, until so many packets have been received there
  for _ in $(seq 200); do
    [ "$(received "$1")" -ge "$2" ] && break
    sleep 0.1
  done
}

rate() { # KIND: not more than rate and burst, and a mirror of what left
  forward "$1:fa" "$1:fb" --rate 20mbit --mirror "$out/mirror.pcap"
  to=packet:ha
  send load --size 1000 --rate 60mbit --seconds 1
  forwarded
  [ "$(frames "$out/mirror.pcap")" -gt 0 ] || die "$1: no mirror"
  holds forward 'forward["directions"][0]["gbps"] < 0.022 and forward["mirror"]["missed"] == 0
    and forward["mirror"]["frames"] == sum(one["sent"] for one in forward["directions"])'
  echo "$1: --rate is not exceeded, and --mirror has what left"
}

idle() { # KIND: asleep when nothing comes
  forward "$1:fa" "$1:fb"
  sleep 1
  local ticks
  ticks=$(awk '{print $14 + $15}' "/proc/$forwarder/stat")
  sleep 2
  ticks=$(($(awk '{print $14 + $15}' "/proc/$forwarder/stat") - ticks))
  [ $ticks -le 20 ] || die "idle, it takes $ticks of 200 ticks"
  forwarded
  echo "$1, idle: $ticks of 200 ticks of processor time"
}

. tests/forward/trouble.sh

space $a && space $b && space $c
host $a ha fa 1
host $c hb fb 2

between packet packet:fa packet:fb
between xdp xdp:fa xdp:fb
forward xdp:fa xdp:fb
no_stall xdp
forwarded
offloads off
between "xdp, no offloads at the peers" xdp:fa xdp:fb
offloads on
mtu 9000
forward packet:fa packet:fb
jumbo packet
forward xdp:fa xdp:fb
jumbo xdp
mtu 1500
for kind in packet xdp; do
  odd_frames $kind
  forward $kind:fa $kind:fb
  lies $kind ha hb
  rate $kind
  rates $kind
  links $kind
  peer_down $kind
  namespace_gone $kind
  arrivals_gone $kind
  idle $kind
done
super_rates
short_of_memory
tap_goes
taps
