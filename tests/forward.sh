#!/usr/bin/env bash
# `wharf forward` between two hosts, which are network namespaces: iperf3 and files through it, by each pair of devices; links
# that go away under traffic; what it costs when idle. Needs root. Leaves nothing behind; every command has a bound.
# FILE_MIB=1024 sends a file of that size in place of 64 MiB, SECONDS_EACH=10 makes each iperf3 run longer.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
file_mib=${FILE_MIB:-64} seconds=${SECONDS_EACH:-1}

in_c() { within $((40 + seconds)) ip netns exec $c "$@"; }

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

between() { # NAME A B ARGUMENTS...
  local name=$1
  shift
  forward "$@"
  all_iperf "$name"
  file "$name"
  forwarded
}

links() { # KIND: the link goes down and comes back under traffic, then for good
  local kind=$1 before
  forward "$kind:fa" "$kind:fb"
  ip netns exec $a "$wharf" send --to packet:ha --size 200 --rate 5kpps --seconds 6 --json >"$out/load.json" 2>"$out/load.err" &
  local load=$!
  started+=($load)
  sleep 1
  ip -n $b link set fb down
  sleep 1
  ip -n $b link set fb up
  sleep 1
  before=$(received hb)
  sleep 1
  [ "$(received hb)" -gt "$((before + 100))" ] || die "$kind: nothing arrives after the link is back"
  ip -n $b link del fb
  ended forward "$forwarder"
  [ $code -eq 1 ] || die "$kind: an interface is gone: exit code $code"
  grep -q "is gone" "$out/forward.err" || die "$kind: it does not say that the interface is gone"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])
    and forward["directions"][0]["drops"]["by_reason"].get("link-down", 0) > 0'
  ended load $load
  host $c hb fb 2
  echo "$kind: a link down and up again: dropped, counted, and on it goes; an interface gone: one line, exit code 1, summary"
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
  file "tap, xdp"
  forwarded
  ip -n $c addr flush dev hb
  forward tap:ta tap:tb
  tap_host $a ta 1
  tap_host $c tb 2
  all_iperf tap
  file tap
  forwarded
}

received() { # INTERFACE: packets, in c
  ip -n $c -j -s link show "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])'
}

odd_frames() { # KIND: too long for the other end, and runts
  forward "$1:fa" "$1:fb"
  for at in "$a ha" "$b fa"; do
    # shellcheck disable=SC2086
    ip -n ${at% *} link set "${at#* }" mtu 3000 || die "no MTU"
  done
  to=packet:ha
  send long --size 2000 --frame-bytes 2560 --count 50
  send short --size 200 --count 50
  sleep 0.3
  forwarded
  holds forward 'forward["directions"][0]["drops"]["by_reason"].get("too-long", 0) >= 50
    and forward["directions"][0]["packets"] >= 50'
  mtu 1500
  echo "$1: frames too long for the other end: counted, and nothing else disturbed"
}

rate() { # KIND: not more than rate and burst, and a mirror of what left
  forward "$1:fa" "$1:fb" --rate 20mbit --mirror "$out/mirror.pcap"
  to=packet:ha
  send load --size 1000 --rate 60mbit --seconds 1
  forwarded
  [ "$(frames "$out/mirror.pcap")" -gt 0 ] || die "$1: no mirror"
  holds forward 'forward["directions"][0]["gbps"] < 0.022 and forward["mirror"]["missed"] == 0
    and forward["mirror"]["frames"] == sum(one["packets"] for one in forward["directions"])'
  echo "$1: --rate is not exceeded, and --mirror has what left"
}

idle() { # asleep when nothing comes
  forward packet:fa packet:fb
  sleep 1
  local ticks
  ticks=$(awk '{print $14 + $15}' "/proc/$forwarder/stat")
  sleep 2
  ticks=$(($(awk '{print $14 + $15}' "/proc/$forwarder/stat") - ticks))
  [ $ticks -le 20 ] || die "idle, it takes $ticks of 200 ticks"
  forwarded
  echo "idle: $ticks of 200 ticks of processor time"
}

space $a && space $b && space $c
host $a ha fa 1
host $c hb fb 2

between packet packet:fa packet:fb
between xdp xdp:fa xdp:fb
offloads off
between "xdp, no offloads at the peers" xdp:fa xdp:fb
offloads on
mtu 9000
between "packet, MTU 9000" packet:fa packet:fb
mtu 1500
for kind in packet xdp; do
  odd_frames $kind
  rate $kind
  links $kind
done
idle
taps
