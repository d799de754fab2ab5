#!/usr/bin/env bash
# `wharf forward` between two hosts (network namespaces): iperf3 and files by each pair of devices; packets with false headers;
# rates; delays under overload; links, interfaces and namespaces that go away under traffic; its cost when idle; a router between
# subnets. Needs root. Leaves nothing behind; every command has a time limit.
# FILE_MIB=1024 sends a file of that size in place of 16 MiB. SECONDS_EACH=10 makes each iperf3 run so long, STALL_SECONDS=600
# the runs in which data must never stop. RATE_SECONDS=10 measures --rate for that time and demands 1 %; without it the rate
# must only not be exceeded.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
file_mib=${FILE_MIB:-16} seconds=${SECONDS_EACH:-} stall_seconds=${STALL_SECONDS:-6} rate_seconds=${RATE_SECONDS:-}
bound=$((60 + seconds + file_mib / 4))

in_a() { within $bound ip netns exec $a "$@"; }
in_c() { within $bound ip netns exec $c "$@"; }

# host SPACE INTERFACE PEER NUMBER [QUEUES]: makes one end of a pair whose other end, PEER, is the forwarder's.
host() {
  # shellcheck disable=SC2086
  ip -n "$1" link add "$2" address "02:00:00:00:00:0$4" ${5:-} type veth peer name "$3" ${5:-} netns $b || die "no veth pair"
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

offloads() { # on|off: sets the hosts' offloads
  for at in "$a ha" "$c hb"; do
    # shellcheck disable=SC2086
    set -- "$1" $at
    ip netns exec "$2" ethtool -K "$3" tx "$1" tso "$1" gso "$1" >/dev/null 2>&1 || die "no offloads $1"
  done
}

# forward A B ARGUMENTS...: starts the forwarder in the middle.
forward() {
  start forward "forwarding" "$wharf" forward --json "$@"
  forwarder=$pid
}

# forwarded [CODE]: ends the forwarder, whose account must add up.
forwarded() {
  stop forward "$forwarder" INT
  [ $code -eq "${1:-0}" ] || die "forward: exit code $code"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])'
}

# iperf NAME ADDRESS ARGUMENTS...: from a to c. Without a length, a few MB show as much as a second, in less; --bidir knows no other end
# than a time.
iperf() {
  local name=$1 address=$2 length=(-t "${seconds:-1}")
  shift 2
  case ${seconds:-$*} in *--bidir* | [0-9]*) ;; *-u*) length=(-n 2M) ;; *) length=(-n 10M) ;; esac
  in_c iperf3 -s -1 -J >"$out/server.json" 2>&1 &
  local server=$!
  soon serves_iperf || die "$name: no server"
  in_a iperf3 -c "$address" -J "${length[@]}" "$@" >"$out/iperf.json" 2>"$out/iperf.err" || die "$name: iperf3"
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

serves_iperf() { ip netns exec $c ss -Hltn 'sport = 5201' | grep -q .; }

all_iperf() { # NAME
  iperf "$1, TCP, IPv4" 10.9.0.2
  iperf "$1, TCP, IPv6" fd09::2
  iperf "$1, TCP, the other way" 10.9.0.2 -R
  iperf "$1, UDP, IPv4" 10.9.0.2 -u -b 100M
  iperf "$1, UDP, IPv6" fd09::2 -u -b 100M -R
}

no_stall() { # NAME: data flow without two idle seconds in a row; a single idle second may be the machine's, and few are allowed
  local seconds=$stall_seconds bound=$((bound + stall_seconds))
  iperf "$1, $seconds s without a stall" 10.9.0.2 -i 1
  holds server 'len(server["intervals"]) >= 0.98 * '"$seconds"'
    and (empty := [one["sum"]["bytes"] == 0 for one in server["intervals"]]).count(True) <= 1 + '"$seconds"' / 100
    and not any(map(all, zip(empty, empty[1:])))'
}

file() { # NAME: a file arrives whole, in both directions at once
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
for _ in range(1000):
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

sizes() { # NAME: a datagram of each size that fits an MTU of 9000 comes back as it was, from the other host
  local server asked
  : >"$out/sizes.err" # one of an earlier server is ready
  ip netns exec $c python3 tests/udp_sizes.py serve 7 2>"$out/sizes.err" &
  server=$!
  soon grep -q ready "$out/sizes.err" || die "$1: no server"
  asked=$(in_a python3 tests/udp_sizes.py check 10.9.0.2 7 18-8972) || die "$1: all sizes: $asked"
  kill $server
  wait $server 2>/dev/null
  echo "  $1: $asked, of 60 to 9014 bytes each"
}

jumbo() { # NAME: frames of 9000 bytes
  sizes "$1"
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

# receive_in_c NAME INTERFACE: starts a receiver in c, process $receiver.
receive_in_c() {
  there=(ip netns exec $c)
  receive "$1" "packet:$2"
  there=(ip netns exec $b) receiver=$pid
}

tap_host() { # SPACE INTERFACE NUMBER: moves a TAP that the forwarder has made to its host
  ip -n $b link set "$2" netns "$1" || die "$2 stays"
  ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=0"
  # Its queue of 500 frames would overflow when the machine pauses, which is no loss of the forwarder's.
  ip -n "$1" link set "$2" address "02:00:00:00:00:0$3" txqueuelen 5000 up || die "$2 stays down"
  addresses "$1" "$2" "$3"
}

taps() { # TAPs to an AF_XDP queue, whose frames cannot be super-packets, and to each other
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
  tap_rates
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

received() { link_statistic $c "$1" rx_packets; } # INTERFACE: prints the packets received in c

# arrive INTERFACE COUNT 'WHEN': waits until COUNT packets have been received there.
arrive() { soon counts $c "$1" rx_packets "$2" || die "too few packets arrive $3"; }

idle() { # KIND: the forwarder sleeps while no packet comes
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

. tests/forward/rates.sh
. tests/forward/trouble.sh
. tests/forward/queues.sh
. tests/forward/tunnels.sh
. tests/forward/routed.sh

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
offloads off
for kind in packet xdp; do
  forward $kind:fa $kind:fb
  sizes "$kind, no offloads at the peers"
  forwarded
done
offloads on
mtu 1500
for kind in packet xdp; do
  odd_frames $kind
  tunnels $kind
  forward $kind:fa $kind:fb
  lies $kind ha hb
  rate $kind
  rates $kind
  shape $kind $kind:fa $kind:fb ha hb
  links $kind
  peer_down $kind
  namespace_gone $kind
  arrivals_gone $kind
  idle $kind
done
long_queue
one_pair
on_a_terminal
super_rates
short_of_memory
tap_goes
taps
queues
subnets
kernel_too packet:fa packet:fb
routed packet packet:fa packet:fb
routed xdp xdp:fa,steer=ip:10.9.2.0/24+ip:fd09:2::/64 xdp:fb,steer=ip:10.9.1.0/24+ip:fd09:1::/64
python3 tests/forward/switch.py "$wharf" || die "the switch"
