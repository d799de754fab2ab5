#!/usr/bin/env bash
# Two network namespaces and a veth pair: wharf against tcpdump, tshark, tcpreplay, trafgen and itself, and every way
# in which an interface can fail. Needs root. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
to=packet:va

# The sample's shorter frames with tags: a priority tag, two VLAN tags, a service tag and a VLAN tag.
python3 - $sample "$out/tags.pcap" <<'P'
import struct, sys
data, tags = open(sys.argv[1], "rb").read(), [b"\x81\0\xe0\0", b"\x81\0\0\5\x81\0\0\7", b"\x88\xa8\x20\x64\x81\0\0\1"]
with open(sys.argv[2], "wb") as out:
    out.write(data[:24])
    at = 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        if length < 1000:
            tag = tags[at % 3]
            frame = data[at + 16 : at + 28] + tag + data[at + 28 : at + 16 + length]
            out.write(data[at : at + 8] + struct.pack("<II", len(frame), len(frame)) + frame)
        at += 16 + length
P

space $a && space $b
pair $a va $b vb

against_tcpdump() { # CAPTURE
  start tcpdump "listening on" tcpdump -i vb -B 32768 -c "$(frames "$1")" -U -w "$out/tcpdump.pcap"
  send replay --pcap "$1" --speed 100kpps
  [ $code -eq 0 ] || die "replay"
  ended tcpdump $pid
  same "$1" "$out/tcpdump.pcap" tcpdump
  echo "${1##*/} at 100kpps: tcpdump has the $(frames "$1") frames, byte for byte, in order, tags included"
}

against_receive() { # CAPTURE
  receive own packet:vb --pcap "$out/own.pcap" --count "$(frames "$1")"
  send replay --pcap "$1" --speed 100kpps
  [ $code -eq 0 ] || die "replay"
  ended own $pid
  [ $code -eq 0 ] || die "own: exit code $code"
  same "$1" "$out/own.pcap" own
  holds replay own 'own["packets"] == replay["packets"] and own["bytes"] == replay["bytes"]
    and own["drops"]["total"] == 0 and own["pool"]["out"] == 0 and replay["timing_error_ns"]["p50"] > 0'
  echo "${1##*/} at 100kpps: wharf receive has them, too"
}

at_top_speed() {
  local how
  for how in "--size 60" "--size 60 --to packet:va,bypass=on" "--imix --flows 20 --senders 2" "--size 1514 --vlan 5"; do
    receive top packet:vb
    to=packet:va
    [ "$how" = "${how%--to*}" ] || to=${how##* }
    # shellcheck disable=SC2086
    send sent ${how%--to*} --seconds 1
    to=packet:va
    [ $code -eq 0 ] || die "send $how"
    stop top $pid INT
    holds sent top 'sent["drops"]["total"] == 0
      and sent["packets"] == top["packets"] + top["drops"]["by_reason"].get("ring-full", 0)
      and top["unstamped"] == top["duplicated"] == top["reordered"] == 0 and top["lost"] <= top["drops"]["total"]'
    echo "top speed, $how: $(python3 -c "
import json
sent, got = (json.load(open('$out/' + name + '.json')) for name in ('sent', 'top'))
print(sent['packets'], 'sent =', got['packets'], 'received +', got['drops']['total'], 'dropped by the kernel')")"
  done
}

with_drops() { # a receiver that sleeps for a while in the middle, so that its small ring overflows
  receive top packet:vb,buffer=512k
  local receiver=$pid
  in_a "$wharf" send --to packet:va --size 60 --rate 50kpps --count 50k --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  flows $b vb
  kill -STOP $receiver
  flows $b vb 20000
  kill -CONT $receiver
  ended sender $sender
  [ $code -eq 0 ] || die "sender"
  stop top $receiver TERM
  [ $code -eq 1 ] || die "lost packets, and exit code $code"
  # The receiver cannot miss a number behind the last packet that came. These may be many on a machine that pauses.
  holds sent top 'sent["packets"] == 50000 == top["packets"] + top["drops"]["total"] and top["drops"]["total"] > 1000
    and top["drops"]["by_reason"] == {"ring-full": top["drops"]["total"]} and top["lost"] <= top["drops"]["total"]
    and top["reordered"] == top["duplicated"] == 0'
  one_line top "packets were dropped: ring-full"
  echo "a receiver that sleeps: what is missing is what the kernel dropped, exactly; exit code 1"
}

with_faults() { # the receiver misses exactly the frames that a faulty device fails
  receive top packet:vb
  send sent --imix --count 20k --senders 2 --fault seed=7,error=1%,short=10%,lost=2%,late=1%:50us,reorder=5%,alloc=1%
  [ $code -eq 0 ] || die "faults on demand are no failure"
  stop top $pid INT
  holds sent top 'sent["drops"]["by_reason"]["injected"] == sent["drops"]["total"] > 100
    and top["packets"] + sent["drops"]["total"] == 20000 and top["reordered"] == top["duplicated"] == 0
    and 0 < top["lost"] <= sent["drops"]["total"] and sent["pool"]["out"] == 0'
  [ $code -eq 1 ] || die "lost packets, and exit code $code"
  echo "a device that fails on demand: the receiver misses what failed, nothing else, and nothing is out of order"
}

from_others() {
  receive replayed packet:vb --pcap "$out/replayed.pcap" --count "$(frames $sample)"
  in_a tcpreplay --quiet --intf1=va --pps=50000 $sample >"$out/tcpreplay.err" 2>&1 || die "tcpreplay"
  ended replayed $pid
  same $sample "$out/replayed.pcap" replayed
  echo "tcpreplay: $(frames $sample) frames, byte for byte"
  cat >"$out/packet.cfg" <<'C'
{ eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), ipv4(sa=192.0.2.1, da=198.51.100.1), udp(sp=7, dp=9), fill('W', 158) }
C
  receive generated packet:vb --pcap "$out/generated.pcap"
  in_a trafgen --in "$out/packet.cfg" --out va --num 50000 --cpus 1 --no-sock-mem >"$out/trafgen.err" 2>&1 || die "trafgen"
  stop generated $pid INT
  holds generated 'generated["packets"] + generated["drops"]["total"] == 50000
    and generated["bytes"] == 200 * generated["packets"] and generated["unstamped"] == generated["packets"]'
  [ "$(tshark -r "$out/generated.pcap" -o udp.check_checksum:TRUE -Y 'udp.checksum.status == 0' 2>/dev/null | wc -l)" -eq 0 ] ||
    die "checksums of trafgen's packets"
  echo "trafgen: 50000 packets, all counted"
}

# listens SPACE: a packet socket there gets frames of all protocols. The columns are the protocol (4th) and whether it runs (6th).
listens() { ip netns exec "$1" awk '$4 == "0003" && $6 == 1 { found = 1 } END { exit !found }' /proc/net/packet; }

into_tshark() {
  local options="-o ip.check_checksum:TRUE -o udp.check_checksum:TRUE"
  start tshark "Capturing on" tshark -i vb -B 32 -a duration:30 -c 3000 -w "$out/tshark.pcapng"
  soon listens $b || die "tshark does not listen" # the line comes before the socket does
  send sent --imix --flows 7 --senders 2 --vlan 9 --count 3000 --rate 50kpps
  [ $code -eq 0 ] || die "send"
  ended tshark $pid
  # shellcheck disable=SC2086
  tshark -r "$out/tshark.pcapng" $options -T fields -e frame.len -e vlan.id -e ip.checksum.status -e udp.checksum.status \
    2>/dev/null >"$out/fields"
  python3 - "$out" <<'P' || die "tshark sees other packets"
import json, sys
out = sys.argv[1]
sent, rows = json.load(open(f"{out}/sent.json")), [line.split("\t") for line in open(f"{out}/fields").read().split("\n") if line]
assert len(rows) == sent["packets"] == 3000, len(rows)
assert sum(int(row[0]) for row in rows) == sent["bytes"]
assert {tuple(row[1:]) for row in rows} == {("9", "1", "1")}, {tuple(row[1:]) for row in rows}
P
  echo "wharf send into tshark: 3000 packets, lengths, tags and checksums agree"
}

by_the_kernels_routes() {
  ip -n $a link set va arp on && ip -n $b link set vb arp on
  ip -n $a addr add 10.99.0.1/24 dev va && ip -n $b addr add 10.99.0.2/24 dev vb && ip -n $a route add 192.0.2.0/24 via 10.99.0.2 \
    || die "no route"
  start tcpdump "listening on" ip netns exec $b tcpdump -i vb -c 9 -U -w "$out/routed.pcap" udp
  to=net:packet
  send sent --dst 192.0.2.7 --count 9
  to=packet:va
  [ $code -eq 0 ] || die "net:packet: exit code $code"
  ended tcpdump $pid
  local mac
  mac=$(ip -n $b -o link show vb | sed 's/.*link.ether \([^ ]*\).*/\1/')
  [ "$(tcpdump -ner "$out/routed.pcap" 2>/dev/null | grep -c "> $mac.* 10.99.0.1.*> 192.0.2.7.9:")" -eq 9 ] || die "net:packet: other frames"
  refused nowhere "no route" "$wharf" send --to net:packet --dst 203.0.113.1 --count 9
  refused silent "does not answer" "$wharf" send --to net:packet --dst 10.99.0.9 --count 9
  ip -n $a tuntap add dev tu mode tun && ip -n $a addr add 10.98.0.1/24 dev tu && ip -n $a link set tu up || die "no tun"
  refused bare "tu has no MACs" "$wharf" send --to net:packet --dst 10.98.0.2 --count 9
  ip -n $a link del tu
  ip -n $a addr flush dev va && ip -n $b addr flush dev vb && ip -n $a link set va arp off && ip -n $b link set vb arp off
  echo "net:packet: by the kernel's route, from its source, to the MAC that the neighbour has said"
}

interfaces_that_are_not_there() {
  refused missing "no such interface" "$wharf" send --size 60 --count 9 --to packet:nowhere
  refused missing "no such interface" "$wharf" receive --from packet:nowhere --seconds 5
  refused unprivileged "CAP_NET_RAW" setpriv --bounding-set=-net_raw "$wharf" send --size 60 --count 9 --to packet:va
  refused unprivileged "CAP_NET_RAW" setpriv --bounding-set=-net_raw "$wharf" receive --from packet:va --seconds 5
  ip -n $a link set va down
  refused down "is down" "$wharf" send --size 60 --count 9 --to packet:va
  refused down "is down" "$wharf" receive --from packet:va --seconds 5
  ip -n $a link set va up
  echo "an interface that is missing, down, or not allowed: one line, exit code 1"
}

nothing_to_receive() {
  receive silence packet:vb --seconds 0.3
  ended silence $pid
  [ $code -eq 0 ] || die "silence: exit code $code"
  holds silence 'silence["packets"] == silence["drops"]["total"] == silence["mpps"] == 0 and silence["latency_ns"] is None'
  # Packets without numbers: the receiver misses none of those before it began.
  ip netns exec $a "$wharf" send --to packet:va --pcap $sample --seconds 60 --rate 20kpps --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  flows $b vb
  receive flood packet:vb --seconds 0.5
  ended flood $pid
  [ $code -eq 0 ] || die "flood: exit code $code"
  stop sent $sender INT
  [ $code -eq 0 ] || die "its sender: exit code $code"
  holds sent flood '0 < flood["packets"] < sent["packets"] and flood["lost"] == 0'
  echo "a time ends it, whether anything comes or not"
}

mtu_too_small() {
  ip -n $a link set va mtu 600
  send short --size 1000 --count 20
  ip -n $a link set va mtu 1500
  [ $code -eq 1 ] || die "exit code $code with an MTU too small"
  one_line short "MTU of 600"
  holds short 'short["packets"] == 20 and short["drops"]["by_reason"] == {"too-long": 20} and short["pool"]["out"] == 0'
  echo "an MTU too small: one line, exit code 1, and the summary"
}

under_traffic() {
  pair $a vc $b vd
  lost packet 0 "is down\|no carrier" 3 ip -n $b link set vd down # the link may come back, so the sender goes on
  ip -n $b link set vd up
  lost packet 0 "gone" 60 ip -n $a link del vc
  # A deleted namespace takes its interfaces and their other ends along: here both vc and vd.
  space $c
  ip -n $b link add vd type veth peer name vx netns $c && ip -n $b link set vd arp off up && ip -n $c link set vx up
  receive got packet:vd --seconds 60 --on-gone fail
  local receiver=$pid
  start sent "" "$wharf" send --size 60 --rate 20kpps --seconds 60 --on-gone fail --to packet:vd --json
  local sender=$pid
  flows $c vx
  ip netns del $c
  ended sender "$sender"
  [ $code -eq 1 ] || die "deleted namespace: the sender's exit code is $code"
  one_line sent "gone"
  ended receiver $receiver
  [ $code -eq 1 ] || die "deleted namespace: the receiver's exit code is $code"
  one_line got "is gone"
  holds sent 'sent["packets"] > 0 and sent["pool"]["out"] == 0'
  echo "an interface switched off, removed, or in a namespace that is deleted, under traffic: one line, exit code 1, summary"
}

for capture in $sample "$out/tags.pcap"; do
  against_tcpdump "$capture"
  against_receive "$capture"
done
at_top_speed
with_drops
with_faults
from_others
into_tshark
by_the_kernels_routes
nothing_to_receive
interfaces_that_are_not_there
mtu_too_small
under_traffic
