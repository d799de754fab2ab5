# Numbered streams both ways between this machine ($near, in namespace b) and the other side of a network device ($far): a guest, or
# whatever else has the functions of `guest_` below under the name of $driver. Sourced behind tests/guest-rig.sh.
# shellcheck shell=bash
near=10.77.0.1 far=10.77.0.2

mark() { echo "$1 $EPOCHREALTIME" >>"$out/marks"; }

# interface NAMESPACE NAME MAC ADDRESS PEER'S MAC AND ADDRESS
interface() {
  ip -n "$1" link set "$2" address "$3" && ip -n "$1" addr replace "$4/24" dev "$2" && ip -n "$1" link set "$2" up &&
    ip -n "$1" neigh replace "$6" lladdr "$5" dev "$2" nud permanent || die "no interface $2"
}

guest_interface() {
  guest "ip addr add $far/24 dev eth0 && ip link set eth0 up && ip neigh replace $near lladdr 02:00:00:00:00:01 dev eth0 nud permanent" ||
    die "no interface: $reply"
  [ "$pairs" -eq 1 ] || guest "ethtool -L eth0 combined $pairs" || die "not all queues: $reply"
}

# A program in the guest: it starts by a name, is interrupted, and its files come here.
guest_starts() { guest "begin $1 '$2' - ${*:3}" || die "$1: $reply"; }
guest_interrupts() { guest "finish $1 INT"; }
guest_gives() { # FILE
  start carry listening python3 tests/guest/carry.py receive 5001 "$out/$1"
  local receiver=$pid
  guest "nc $near 5001 </tmp/$1" || die "the guest cannot send: $reply"
  ended carry "$receiver"
}

guest_figures() { # COMMAND FILE: what it prints in the guest
  guest "$1" || die "$1: $reply"
  echo "$reply" >"$out/$2"
}

# streams PPS: starts numbered packets both ways, so many a second, two flows for each pair. What arrives is written to captures.
streams() {
  local flow rate=$(($1 / (2 * pairs)))pps tool=wharf place=/tmp
  [ "$driver" = guest ] || { tool=$wharf place=$out; }
  start near_got "listening on" "$wharf" receive --from udp:$near:9000 --pcap "$out/near.pcap" --json
  near_got=$pid senders=()
  "${driver}_starts" far_got "listening on" "$tool" receive --from udp:$far:9000 --pcap "$place/far.pcap" --json
  for flow in $(seq $((2 * pairs))); do
    start "near_sent$flow" "" "$wharf" send --to udp:$far:9000 --imix --rate "$rate" --json
    senders[$flow]=$pid
    "${driver}_starts" "far_sent$flow" "" "$tool" send --to udp:$near:9000 --imix --rate "$rate" --json
  done
}

settle() { # ends the streams, the senders first
  local flow
  mark end
  for flow in $(seq $((2 * pairs))); do
    stop "near_sent$flow" "${senders[$flow]}" INT
    [ $code -eq 0 ] || die "near_sent$flow ended by itself: $(cat "$out/near_sent$flow.err")"
    "${driver}_interrupts" "far_sent$flow"
  done
  sleep 1
  stop near_got "$near_got" INT
  "${driver}_interrupts" far_got
  "${driver}_gives" far.pcap
  "${driver}_gives" far_got.json
  ip -n $b -j -s link >"$out/near.links.json" && tc -n $b -j -s qdisc >"$out/near.queues.json" || die "no figures of interfaces"
  "${driver}_figures" "ip -j -s link" far.links.json
  "${driver}_figures" "tc -j -s qdisc" far.queues.json
}
