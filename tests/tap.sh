#!/usr/bin/env bash
# `tap:` in a network namespace: wharf against tcpdump, tcpreplay and the kernel's own sockets, on an interface that it makes
# or takes over. The interface goes down, away and into another namespace under traffic. Needs root. Leaves nothing behind;
# every command has a time limit. TCP through TAPs is in crates/wharf-devices/tests/suite/tap/stream.rs.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
# Both ends of a TAP are here.
b=$a there=("${here[@]}")
to=tap:t0

space $a
# Packets to a TAP wait in its queue while its reader does not run.
ip -n $a tuntap add t0 mode tap && ip -n $a link set t0 arp off txqueuelen 5000 up || die "no TAP"

against_tcpdump() { # CAPTURE
  start tcpdump "listening on" tcpdump -i t0 -Q in -B 32768 -c "$(frames "$1")" -U -w "$out/tcpdump.pcap"
  send replay --pcap "$1" --speed 50kpps
  [ $code -eq 0 ] || die "replay"
  ended tcpdump $pid
  same "$1" "$out/tcpdump.pcap" tcpdump
  holds replay 'replay["drops"]["total"] == 0 and not replay["bql"]["enabled"] and replay["pool"]["out"] == 0'
  echo "${1##*/} to a TAP that was there: tcpdump has the $(frames "$1") frames, byte for byte, in order"
}

from_tcpreplay() { # CAPTURE
  receive own tap:t0 --pcap "$out/own.pcap" --count "$(frames "$1")"
  in_a tcpreplay --quiet --intf1=t0 --pps=20000 "$1" >"$out/tcpreplay.err" 2>&1 || die "tcpreplay"
  ended own $pid
  [ $code -eq 0 ] || die "own: exit code $code"
  same "$1" "$out/own.pcap" own
  holds own 'own["drops"]["by_reason"] == {"ring-full": 0} or own["drops"]["total"] == 0'
  ip -n $a link show t0 >/dev/null || die "it was there before, and is not any more"
  echo "tcpreplay: $(frames "$1") frames, byte for byte"
}

to_and_from_receive() {
  receive top tap:t1,multi_queue=on
  ip -n $a link set t1 arp off txqueuelen 20000
  in_a "$wharf" send --to packet:t1 --imix --flows 20 --senders 2 --count 20k --rate 20kpps --json >"$out/sent.json" 2>"$out/sent.err" ||
    die "send"
  stop top $pid INT
  holds sent top 'sent["packets"] == top["packets"] == 20000 and top["lost"] == top["reordered"] == top["duplicated"] == 0'
  ip -n $a link show t1 2>/dev/null && die "it stays behind"
  echo "generated packets: all there, in order, and the interface goes with its user"
}

from_the_kernel() { # the kernel's sockets leave checksums to the other end, if it accepts that
  ip -n $a addr add 10.9.0.1/24 dev t0
  ip -n $a neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev t0
  kernels_datagrams tap:t0,offload=on unfinished
  kernels_datagrams tap:t0,offload=off finished
  ip -n $a addr flush dev t0
  echo "datagrams of the kernel's: unfinished as they were, and as on a wire with offload=off"
}

several_queues() {
  in_a "$wharf" send --to tap:t2 --queues 4 --imix --flows 40 --count 20k --json >"$out/sent.json" 2>"$out/sent.err" || die "four queues"
  holds sent 'sent["packets"] == 20000 and len(sent["queues"]) == 4 and all(queue["packets"] > 0 for queue in sent["queues"])
    and sent["drops"]["total"] == 0 and sent["pool"]["out"] == 0'
  echo "four queues of one interface, each with its flows"
}

what_cannot_be() {
  ip -n $a link add va type veth peer name vb
  refused veth "is no TAP" "$wharf" send --size 60 --count 9 --to tap:va
  receive busy tap:t3
  refused taken "it is in use" "$wharf" receive --from tap:t3 --seconds 5
  kill -9 $pid
  wait $pid 2>/dev/null
  ip -n $a link show t3 2>/dev/null && die "a process that was killed leaves its interface"
  in_a "$wharf" send --size 60 --count 9 --to tap:t3 --json >"$out/again.json" 2>&1 || die "the name is not free again"
  refused unprivileged "CAP_NET_ADMIN" setpriv --bounding-set=-net_admin "$wharf" send --size 60 --count 9 --to tap:t3
  ip -n $a tuntap add t4 mode tap user root && ip -n $a link set t4 up
  in_a setpriv --bounding-set=-net_admin "$wharf" send --size 60 --count 9 --to tap:t4 --json >"$out/own.json" 2>&1 ||
    die "one made for the user wants no privilege"
  within 40 unshare -Urn "$wharf" send --size 60 --count 9 --to tap:t5 --json >"$out/user.json" 2>&1 || die "in a user namespace"
  ip -n $a link del va
  echo "no TAP, one that is taken, no privilege: one line, exit code 1; a killed user's name is free; one's own TAP wants none"
}

mtu_too_small() {
  to=tap:t0,mtu=600
  send short --size 1000 --count 20
  ip -n $a link set t0 mtu 1500
  to=tap:t0
  [ $code -eq 1 ] || die "exit code $code with an MTU too small"
  one_line short "MTU of 600"
  holds short 'short["packets"] == 20 and short["drops"]["by_reason"] == {"too-long": 20} and short["pool"]["out"] == 0'
  echo "an MTU too small: one line, exit code 1, and the summary"
}

# sending NAME SECONDS: starts a sender to that TAP in the background, process $sender.
sending() {
  in_a "$wharf" send --size 60 --rate 20kpps --seconds "$2" --on-gone fail --to "tap:$1" --json >"$out/sent.json" 2>"$out/sent.err" &
  sender=$!
  flows $a "$1"
}

under_traffic() {
  receive got tap:t7 --seconds 60
  receiver=$pid
  ip -n $a link set t7 arp off
  sending t0 60
  ip -n $a link set t0 down
  ip -n $a link set t7 down
  ended sender "$sender"
  [ $code -eq 1 ] || die "down: the sender's exit code is $code"
  one_line sent "is down"
  holds sent 'sent["packets"] > 0 and sent["drops"]["by_reason"] == {"link-down": sent["drops"]["total"]} and sent["pool"]["out"] == 0'
  ip -n $a link set t0 up
  ip -n $a link set t7 up
  in_a "$wharf" send --to packet:t7 --size 60 --count 100 --json >"$out/sent.json" 2>&1 || die "send to one that is up again"
  stop receiver $receiver INT
  holds got 'got["packets"] == 100 and got["lost"] == 0'

  receive got tap:t7 --seconds 60 --on-gone fail
  receiver=$pid
  sending t6 60
  ip -n $a link del t6
  ip -n $a link del t7
  ended sender "$sender"
  [ $code -eq 1 ] || die "removed: the sender's exit code is $code"
  one_line sent "gone"
  ended receiver "$receiver"
  [ $code -eq 1 ] || die "removed: the receiver's exit code is $code"
  one_line got "is gone"
  holds sent got 'sent["packets"] > 0 and sent["pool"]["out"] == got["pool"]["out"] == 0'

  # A deleted namespace takes its interfaces along, although their users are elsewhere.
  space $c
  receive got tap:t9 --seconds 60 --on-gone fail
  receiver=$pid
  ip -n $a link set t9 netns $c && ip -n $c link set t9 arp off up || die "cannot be moved"
  within 40 ip netns exec $c "$wharf" send --to packet:t9 --size 60 --count 100 --json >"$out/sent.json" 2>&1 || die "send to one that was moved"
  soon counts $c t9 tx_packets 100
  ip netns del $c
  ended receiver $receiver
  [ $code -eq 1 ] || die "deleted namespace: the receiver's exit code is $code"
  one_line got "is gone"
  holds got 'got["packets"] == 100 and got["lost"] == got["pool"]["out"] == 0'
  echo "switched off and on, removed, moved to a namespace and that deleted, under traffic: one line, exit code 1, summary; a receiver waits for the link"
}

against_tcpdump $sample
from_tcpreplay $sample
to_and_from_receive
from_the_kernel
several_queues
what_cannot_be
mtu_too_small
under_traffic
