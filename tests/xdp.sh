#!/usr/bin/env bash
# `xdp:` between two network namespaces: wharf against tcpdump, trafgen and the kernel's own sockets; queues that are free
# again however their user ended; interfaces that go away under traffic. Needs root. Leaves nothing behind; every command
# has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
to=xdp:va

space $a && space $b
pair $a va $b vb

against_tcpdump() { # CAPTURE
  start tcpdump "listening on" tcpdump -i vb -B 32768 -c "$(frames "$1")" -U -w "$out/tcpdump.pcap"
  send replay --pcap "$1" --speed 50kpps
  [ $code -eq 0 ] || die "replay"
  ended tcpdump $pid
  same "$1" "$out/tcpdump.pcap" tcpdump
  holds replay 'replay["mode"] == "copy" and replay["bql"]["enabled"]'
  echo "${1##*/}: tcpdump has the $(frames "$1") frames, byte for byte, in order"
}

against_receive() { # CAPTURE
  receive own xdp:vb --pcap "$out/own.pcap" --count "$(frames "$1")"
  grep -q "(native, copy)" "$out/own.err" || die "the receiver does not say how it works"
  send replay --pcap "$1" --speed 50kpps
  [ $code -eq 0 ] || die "replay"
  ended own $pid
  [ $code -eq 0 ] || die "own: exit code $code"
  same "$1" "$out/own.pcap" own
  holds replay own 'own["packets"] == replay["packets"] and own["bytes"] == replay["bytes"] and own["mode"] == "native, copy"
    and own["drops"]["total"] == 0 and own["pool"]["out"] == 0'
  echo "${1##*/}: xdp to xdp, the same"
}

batching() { # packets per doorbell, which is one system call each
  send on --size 60 --seconds 1
  [ $code -eq 0 ] || die "batching on"
  send off --size 60 --seconds 1 --batch off
  [ $code -eq 0 ] || die "batching off"
  holds on off 'on["packets_per_doorbell"] > 30 and off["packets_per_doorbell"] == 1
    and on["drops"]["total"] == off["drops"]["total"] == 0 and on["pool"]["out"] == off["pool"]["out"] == 0'
  echo "top speed: more than 30 packets a system call with batching, 1 without"
}

from_others() {
  cat >"$out/packet.cfg" <<'C'
{ eth(da=02:00:00:00:00:02, sa=02:00:00:00:00:01), ipv4(sa=192.0.2.1, da=198.51.100.1), udp(sp=7, dp=9), fill('W', 158) }
C
  receive generated xdp:vb
  in_a trafgen --in "$out/packet.cfg" --out va --num 20000 --cpus 1 --no-sock-mem --gap 20us >"$out/trafgen.err" 2>&1 || die "trafgen"
  stop generated $pid INT
  holds generated 'generated["packets"] + generated["drops"]["total"] == 20000
    and generated["bytes"] == 200 * generated["packets"] and generated["unstamped"] == generated["packets"] > 0'
  echo "trafgen: 20000 packets, all counted"
}

from_the_kernel() { # the kernel's sockets leave checksums to the adapter, and segmentation where they may
  ip -n $a addr add 10.9.0.1/24 dev va && ip -n $b addr add 10.9.0.2/24 dev vb
  ip -n $a neigh add 10.9.0.2 lladdr "$(ip -n $b -j link show vb | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])')" dev va
  kernels_datagrams xdp:vb,csum=fill finished
  kernels_datagrams xdp:vb,csum=off unfinished
  # An interface without an XDP hook of its own, on top of one that leaves checksums unfinished.
  if ip -n $b link add link vb name above type macvlan mode passthru 2>/dev/null; then
    ip -n $b link set dev above arp off up || die "no macvlan"
    kernels_datagrams xdp:above finished
    grep -q "(generic, copy)" "$out/kernel.err" || die "the macvlan's receiver does not say how it works"
    ip -n $b link del above
  fi
  ip -n $a addr flush dev va && ip -n $b addr flush dev vb
  echo "datagrams of the kernel's: checksums right with csum=fill, as they were with csum=off"
}

what_cannot_be() {
  refused missing "no such interface" "$wharf" send --size 60 --count 9 --to xdp:nowhere
  refused missing "no such interface" "$wharf" receive --from xdp:nowhere --seconds 5
  refused unprivileged "CAP_NET_RAW" setpriv --bounding-set=-net_raw "$wharf" send --size 60 --count 9 --to xdp:va
  refused unprivileged "CAP_BPF" setpriv --bounding-set=-sys_admin,-bpf "$wharf" receive --from xdp:va --seconds 5
  refused zerocopy "mode=auto" "$wharf" send --size 60 --count 9 --to xdp:va,mode=zerocopy
  refused zerocopy "mode=auto" "$wharf" receive --from xdp:va,mode=zerocopy --seconds 5
  refused queue "no queue 7" "$wharf" send --size 60 --count 9 --to xdp:va,queue=7
  send long --size 1515 --count 9
  [ $code -eq 1 ] || die "too long: exit code $code"
  one_line long "MTU of 1500"
  holds long 'long["drops"]["by_reason"] == {"too-long": 9} and long["pool"]["out"] == 0'
  refused locked "ulimit -l" setpriv --bounding-set=-ipc_lock sh -c "ulimit -l 64 && exec '$wharf' send --size 60 --count 9 --to xdp:va"
  # Sending needs CAP_NET_RAW only.
  in_a setpriv --bounding-set=-all,+net_raw "$wharf" send --size 60 --frames 512 --count 900 --to xdp:va --json >"$out/least.json" 2>"$out/least.err" ||
    die "with CAP_NET_RAW alone"
  holds least 'least["packets"] == 900 and least["drops"]["total"] == 0'
  echo "what cannot be: one line, exit code 1; CAP_NET_RAW alone is enough to send"
}

in_a_user_namespace() { # root of a network of its own, and of nothing else
  within 40 unshare -Urn sh -c "ip link add va type veth peer name vb && ip link set va up && ip link set vb up &&
    '$wharf' send --size 60 --frames 1024 --count 1000 --to xdp:va --json" >"$out/user.json" 2>"$out/user.err"
  code=$?
  if [ $code -eq 0 ]; then
    holds user 'user["packets"] == 1000 and user["drops"]["total"] == 0'
    echo "unshare -Urn: sends"
  else
    one_line user "xdp:va: .*[a-z]"
    echo "unshare -Urn: $(cat "$out/user.err")"
  fi
}

late_completions() { # completions come late from an end of 100 Mbit/s: the byte limit learns that
  if ! slow_wire $b vb 100mbit; then
    echo "a slow wire: not here: $missing"
    return
  fi
  send slow --size 1514 --seconds 2
  [ $code -eq 0 ] || die "slow wire: exit code $code"
  # A ring of 2048 frames would be 3 MB.
  holds slow 'slow["packets"] > 2000 and slow["drops"]["total"] == 0 and 0 < slow["bql"]["limit_bytes"] < 1_000_000'
  tc -n $b qdisc del dev vb ingress && ip -n $b link del behind && ip -n $b link del ifb0
  echo "a slow wire: the byte limit keeps $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bql"]["limit_bytes"])' "$out/slow.json") bytes under way, of 3 MB that the ring holds"
}

killed() { # SIGKILL under traffic: the queue and the program are free again at once, or soon
  for round in 1 2 3; do
    receive got xdp:vb
    local receiver=$pid
    ip netns exec $a "$wharf" send --size 60 --seconds 60 --to xdp:va --json >"$out/sent.json" 2>"$out/sent.err" &
    local sender=$!
    started+=($sender)
    sleep 0.4
    kill -0 $sender && kill -0 $receiver || die "round $round: gone before they were killed"
    kill -9 $sender $receiver
    wait $sender $receiver 2>/dev/null
    receive again xdp:vb
    send after --size 60 --count 2000 --rate 20kpps
    [ $code -eq 0 ] || die "round $round: the queue is not free"
    stop again $pid INT
    holds again 'again["packets"] + again["drops"]["total"] >= 2000 and again["packets"] > 0'
  done
  [ -z "$(ip -n $b link show vb | grep -o 'xdp')" ] || die "a program is left"
  echo "killed under traffic, three times: queue and program are free for the next ones"
}

under_traffic() {
  pair $a vc $b vd
  lost xdp 'got["drops"]["total"]' "is down\|no carrier" 4 ip -n $b link set vd down
  ip -n $b link set vd up
  lost xdp 'got["drops"]["total"]' "is gone" 60 ip -n $a link del vc
  space $c
  ip -n $b link add vd type veth peer name vx netns $c && ip -n $b link set vd arp off up && ip -n $c link set vx up
  start sent "" "$wharf" send --size 60 --rate 20kpps --seconds 60 --on-gone fail --to xdp:vd --json
  local sender=$pid
  sleep 1
  ip netns del $c
  ended sender "$sender"
  [ $code -eq 1 ] || die "deleted namespace: the sender's exit code is $code"
  one_line sent "is gone\|no carrier"
  holds sent 'sent["packets"] > 0 and sent["pool"]["out"] == 0'
  echo "an interface switched off, removed, or in a namespace that is deleted, under traffic: one line, exit code 1, summary"
}

against_tcpdump $sample
against_receive $sample
batching
from_others
from_the_kernel
what_cannot_be
in_a_user_namespace
late_completions
killed
under_traffic
