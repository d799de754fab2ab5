#!/usr/bin/env bash
# The example programs, each run as a program over veth pairs between network namespaces, beside the kernel's own sockets and
# tcpdump: what they send, keep and count is checked. Needs root. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export PROFILE=${PROFILE:-quick}
built=$(tests/build.sh --example retransmit --example echo --example balance --example capture) || exit 1
# The command line with a device and a discipline of its own.
WHARF=$built/own-device
. tests/rig.sh
to=packet:va
peer=(python3 tests/examples_peer.py)
client=02:00:00:00:00:0a front=02:00:00:00:00:0f back=02:00:00:00:00:0b server=02:00:00:00:00:0c service=10.9.9.9:7000

space $a && space $b && space $c
pair $a va $b vb
pair $b vk $c vc
for link in "$a va $client 10.9.0.1/24" "$b vb $front 10.9.0.254/24" "$b vk $back 10.9.1.254/24" \
  "$c vc $server 10.9.1.1/24 10.9.1.2/24 10.9.1.3/24"; do
  read -r where name mac addresses <<<"$link"
  ip -n "$where" link set "$name" down address "$mac" && ip -n "$where" link set "$name" arp on up || die "no address for $name"
  for address in $addresses; do ip -n "$where" addr add "$address" dev "$name" || die "no address for $name"; done
done
# The ways to the service and back lead through b. Nothing asks for addresses: `xdp` would keep the answers.
ip -n $a neigh add 10.9.0.254 lladdr $front dev va nud permanent && ip -n $b neigh add 10.9.0.1 lladdr $client dev vb nud permanent &&
  ip -n $a route add ${service%:*} via 10.9.0.254 && ip -n $c neigh add 10.9.1.254 lladdr $back dev vc nud permanent &&
  ip -n $c route add 10.9.0.0/24 via 10.9.1.254 || die "no routes"

# begin NAME COMMAND...: starts an example in namespace b; it is ready when it says so. Its standard input stays open.
begin() {
  # shellcheck disable=SC2016
  start "$1" "listening on" bash -c 'exec "$@" < <(echo "$BASHPID" >"$0"; exec sleep 60)' "$out/$1.hold" "$built/examples/$2" "${@:3}"
}

# over NAME PID: waits for the example's end; its output is $said.
over() {
  ended "$1" "$2"
  said=$(cat "$out/$1.json")
  [ $code -eq 0 ] || die "$1: exit code $code: $said"
}

# finish NAME PID: ends the example by the end of its standard input.
finish() {
  kill "$(cat "$out/$1.hold")"
  over "$1" "$2"
}

# number 'WORD': the number before WORD in $said.
number() { sed -n "s/.*\b\([0-9][0-9]*\) $1.*/\1/p" <<<"$said" | head -n 1; }

echo_server() {
  begin echo echo 10.9.0.254:7007 100
  local by_wire=$pid there=()
  begin echo6 echo '[::1]:0' 3
  local by_loopback=$pid
  local asked
  asked=$(in_a "${peer[@]}" ask 10.9.0.254:7007 150 40) && [ "$asked" = itself:150 ] || die "echo: $asked"
  asked=$(within 20 "${peer[@]}" ask "$(sed -n 's/listening on udp://p' "$out/echo6.err")" 5 100) || die "echo by IPv6"
  finish echo6 $by_loopback && [ "$(number 'datagrams received')/$(number 'sent back')" = 500/500 ] || die "echo: $said"
  finish echo $by_wire && [ "$(number 'datagrams received')/$(number 'sent back')" = 6000/6000 ] || die "echo: $said"
  there=()
  begin sizes echo 127.0.0.1:0 4
  asked=$(within 60 python3 tests/udp_sizes.py check 127.0.0.1 "$(sed -n 's/listening on udp:.*://p' "$out/sizes.err")" \
    18-9000 60000) && [ "${asked%% *}" = 8984 ] || die "echo of all sizes: $asked"
  finish sizes "$pid" || die "echo of all sizes: $said"
  echo "echo: 150 flows over 100 tasks, 5 over 3 by IPv6: every answer right, in order ($said)"
}

bad_sums() { ip netns exec "$1" awk '/^Udp: [0-9]/ { print $8 }' /proc/net/snmp; }
balancer() { # KIND
  local asked dump names=() server_pid balancer_pid
  rm -f "$out"/{serve,behind}.err # those of an earlier balancer
  ip netns exec $c "${peer[@]}" serve ${service#*:} 10.9.1.1 10.9.1.2 10.9.1.3 2>"$out/serve.err" &
  server_pid=$!
  ip netns exec $c tcpdump -i vc -B 32768 -c 6000 -U -w "$out/behind.pcap" udp 2>"$out/behind.err" &
  dump=$!
  for name in serve:ready behind:listening; do
    soon grep -qs "${name#*:}" "$out/${name%:*}.err" || die "${name%:*} does not start"
  done
  for address in 10.9.1.1 10.9.1.2 10.9.1.3; do names+=("$address=$server"); done
  begin balance balance $service "$1:vb" "$1:vk" "${names[@]}"
  balancer_pid=$pid
  asked=$(in_a "${peer[@]}" ask $service 60 50) || die "balance by $1: a wrong answer, or none"
  [ "$(wc -w <<<"$asked")" -eq 3 ] || die "balance by $1: not every back end has flows: $asked"
  finish balance $balancer_pid
  [ "$(grep -c '^3000 sent, 0 dropped' <<<"$said")" -eq 2 ] || die "balance by $1: $said"
  ended behind $dump
  kill $server_pid
  wait $server_pid 2>/dev/null
  [ "$(bad_sums $a)/$(bad_sums $c)" = 0/0 ] || die "the kernel refused checksums"
  [ "$(tshark -r "$out/behind.pcap" -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y "eth.src == $front \
    && ip.checksum.status == 1 && udp.checksum.status != 0" 2>/dev/null | wc -l)" -eq 3000 ] || die "bad checksums behind the balancer"
  echo "balance by $1: 60 flows there and back, each by one back end ($asked), all checksums right"
}

# captures NAME COUNT COMMAND...: captures COUNT packets, which the command sends: $written, and $lost. A busy machine gets more time.
captures() {
  local name=$1 count=$2 seconds
  for seconds in 3 12 40; do
    begin "$name" capture packet:vb "$out/$name.pcap" $seconds
    "${@:3}"
    over "$name" $pid
    written=$(number 'packets written') lost=$(number lost)
    [ $((written + lost)) -lt "$count" ] || return
  done
}

flood() { # to a capture that does not run for a while: the kernel's ring fills
  kill -STOP $pid
  send flood --size 60 --count 200k
  kill -CONT $pid
}

capture_to_disk() {
  local written lost
  captures whole 2200 send replay --pcap $sample --speed 100kpps
  [ "$written/$(number failed)/$lost" = 2200/0/0 ] || die "capture: $said"
  same $sample "$out/whole.pcap" capture
  capinfos -c -M "$out/whole.pcap" | grep -q 'Number of packets: *2200' || die "capinfos does not read it"
  captures loss 200000 flood
  [ $((written + lost)) -eq 200000 ] && [ "$lost" -gt 0 ] || die "capture: $said"
  capinfos -c -M "$out/loss.pcap" | grep -q "Number of packets: *$written" || die "capinfos counts otherwise"
  echo "capture: ${sample##*/} byte for byte; stopped for a while, $written written + $lost lost = 200000 sent"
}

fan_out() {
  local seen before dump hosts destinations=(0 99 100 199)
  # The first and the last destination of each path: all that it gets.
  hosts=$(printf 'dst host 10.77.0.%d or ' "${destinations[@]}")
  start dump "listening on" tcpdump -i vb -B 65536 -U -w "$out/fan.pcap" "udp and (${hosts% or })"
  dump=$pid
  before=$(ip netns exec $b cat /sys/class/net/vb/statistics/rx_packets)
  said=$(in_a "$built/examples/retransmit" 2 0.5 xdp:va packet:va,bypass=on) || die "retransmit: $said"
  seen=$(($(ip netns exec $b cat /sys/class/net/vb/statistics/rx_packets) - before))
  [ "$(number packets)" -eq "$seen" ] && [ $((seen % 200)) -eq 0 ] && [ "$seen" -gt 0 ] || die "retransmit: $said, $seen arrived"
  soon has_bytes "$out/fan.pcap" $((24 + seen / 200 * 4 * (16 + 42 + 1232)))
  stop dump $dump INT
  "${peer[@]}" fan "$out/fan.pcap" $((seen / 200)) "${destinations[@]}" || die "retransmit: wrong packets"
  echo "retransmit by xdp and packet: $said, all arrived, each payload to all of 200 destinations in the same order"
}

own_kinds() {
  start hex "forwarding" "$wharf" forward packet:vb "hex:$out/hex.txt" --json
  local forwarder=$pid
  send replay --pcap $sample --speed 100kpps
  soon eval '[ "$(wc -l <"$out/hex.txt")" -ge 2200 ]'
  stop hex $forwarder INT
  holds hex 'hex["directions"][0]["sent"] == 2200 and hex["directions"][0]["drops"]["total"] == 0
    and hex["directions"][0]["pool"]["out"] == 0'
  python3 - $sample "$out/hex.txt" <<'P' || die "hex: other frames than were sent"
import struct, sys
data, lines, at = open(sys.argv[1], "rb").read(), open(sys.argv[2]), 24
while at < len(data):
    length = struct.unpack_from("<I", data, at + 8)[0]
    assert lines.readline() == data[at + 16 : at + 16 + length].hex() + "\n"
    at += 16 + length
assert lines.read() == ""
P
  receive got packet:vb --count 858
  send dropped --size 60 --count 1000 --qdisc drop_nth:n=7
  ended got $pid
  holds dropped got 'dropped["sent"] == got["packets"] == 858 and got["reordered"] == 0 and dropped["pool"]["out"] == 0
    and dropped["drops"]["by_reason"] == {"drop-nth": 142} and got["lost"] == 142'
  echo "own device and discipline: 2200 frames of an interface as lines of digits; 142 of 1000 dropped, the others in order"
}

echo_server
balancer packet
balancer xdp
capture_to_disk
fan_out
own_kinds
