#!/usr/bin/env bash
# `udp:` over loopback, without privileges, against plain sockets in Python and dig; a kernel that refuses segments, a full
# socket buffer, an absent peer. Leaves nothing behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
here=() there=()
# Root drops its privileges.
[ "$(id -u)" -ne 0 ] || here=(setpriv --bounding-set=-all) there=(setpriv --bounding-set=-all)
peer=(python3 tests/udp_peer.py)

# peer_listens NAME ARGUMENTS...: starts the other end in the background. It keeps root's privileges, so that its socket holds
# all packets that are sent while it does not run.
peer_listens() {
  local there=()
  start "$1" ready "${peer[@]}" "${@:2}"
}
built=$(tests/build.sh --example dns) || exit 1

# port HOST: puts a free port into $port.
port() {
  port=$(python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0)); print(s.getsockname()[1])' "$1")
}

# seen NAME PID: waits for a peer's end and puts its output into $seen.
seen() {
  ended "$1" "$2"
  [ $code -eq 0 ] || die "$1: $(tail -n 1 "$out/$1.err")"
  seen=$(cat "$out/$1.json")
}

to_python() { # a real capture: the payloads of its datagrams arrive byte for byte and in order; other frames are counted
  for host in 127.0.0.1 '[::1]'; do
    port "$(tr -d '[]' <<<"$host")"
    peer_listens peer expect $sample "$host:$port"
    to=udp:$host:$port
    send replay --pcap $sample --speed 20kpps
    seen peer $pid
    read -r datagrams others <<<"$seen"
    [ "$datagrams" -gt 100 ] && [ "$others" -gt 100 ] && [ $code -eq 0 ] || die "a poor capture: $seen"
    holds replay "replay['drops']['by_reason'] == {'not-udp': $others} and replay['packets'] == $datagrams + $others
      and replay['pool']['out'] == 0 and not replay['bql']['enabled']"
    one_line replay "not-udp"
  done
  echo "the $datagrams datagrams of ${sample##*/} arrive at a plain socket byte for byte, by IPv4 and IPv6; $others other frames are not-udp"
}

from_python() {
  for case in '127.0.0.1 1 off' '127.0.0.1 40 off' '127.0.0.1 40 on' '[::1] 1 off' '[::1] 40 on'; do
    read -r host segments gro <<<"$case"
    port "$(tr -d '[]' <<<"$host")"
    receive own "udp:$host:$port,gro=$gro" --pcap "$out/own.pcap" --count 1990
    local receiver=$pid
    "${peer[@]}" send "$host:$port" 1990 333 "$segments" || die "sending by a plain socket"
    ended own $receiver
    [ $code -eq 0 ] || die "$case: exit code $code"
    "${peer[@]}" check "$out/own.pcap" "$host:$port" 1990 333 || die "$case: other frames than were sent"
  done
  echo "datagrams of a plain socket, sent by one and as segments: frames with right headers and checksums"
}

own_ends() { # at top speed: the kernel dropped and counted what did not arrive
  for size in '--size 60' '--size 1242' '--imix'; do
    port 127.0.0.1
    receive got "udp:127.0.0.1:$port"
    to=udp:127.0.0.1:$port
    # shellcheck disable=SC2086
    send sent $size --senders 2 --seconds 1
    [ $code -eq 0 ] || die "own ends: exit code $code"
    stop got $pid INT
    holds sent got 'sent["packets"] == got["packets"] + got["drops"]["total"] and got["packets"] > 1000
      and set(got["drops"]["by_reason"]) == {"socket-full"} and got["unstamped"] == got["reordered"] == got["duplicated"] == 0
      and sum(sender["packets"] for sender in got["senders"]) == got["packets"] and got["pool"]["out"] == sent["pool"]["out"] == 0'
  done
  receive got "udp:127.0.0.1:$port"
  send sent --imix --rate 20mbit --count 3000
  stop got $pid INT
  holds got 'got["packets"] + got["drops"]["total"] == 3000 and got["packets"] > 1000 and got["lost"] <= got["drops"]["total"] and got["latency_ns"]["p50"] > 0'
  # A message of 54 datagrams, and three of 64 and fewer.
  for size in '1242 --gso 64842' '142 --gso 16042'; do
    receive got "udp:127.0.0.1:$port"
    # shellcheck disable=SC2086
    send sent --size $size --rate 40mbit --count 6401
    stop got $pid INT
    holds sent got 'got["packets"] + got["drops"]["total"] == 6401 and got["lost"] <= got["drops"]["total"] < 3200
      and got["unstamped"] == got["reordered"] == got["duplicated"] == 0 and sent["drops"]["total"] == 0 and sent["packets"] < 200 and sent["pool"]["out"] == 0'
  done
  echo "wharf to wharf: sent = received + dropped by the kernel, each sender's in order; super-packets arrive as their datagrams"
}

by_frame() { # two peers in turn, and frames that are no datagrams
  port 127.0.0.1 && one=127.0.0.1:$port
  port 127.0.0.2 && two=127.0.0.2:$port
  "${peer[@]}" frames "$out/both.pcap" $one $two 3000 || die "no capture"
  peer_listens first expect "$out/both.pcap" $one one
  local first=$pid
  peer_listens second expect "$out/both.pcap" $two one
  local second=$pid
  to=udp:0.0.0.0:0,dest=frame
  send both --pcap "$out/both.pcap" --speed 20kpps
  seen first $first && [ "$seen" = "2000 300" ] || die "first: $seen"
  seen second $second && [ "$seen" = "1000 300" ] || die "second: $seen"
  holds both 'both["drops"]["by_reason"] == {"not-udp": 300} and both["packets"] == 3300'
  echo "dest=frame: each to where it says, in order"
}

groups() { # members of a group on this machine: a plain socket, two ends of ours, and one of another group
  port 127.0.0.1
  local group=udp:239.195.7.1:$port,interface=lo
  # 200 datagrams fit into a socket's usual buffer.
  peer_listens plain member 239.195.7.1:"$port" lo 5 200
  local plain=$pid
  receive one "$group" --count 200
  local one=$pid
  receive two "$group" --count 200
  local two=$pid
  receive other "udp:239.195.7.2:$port,interface=lo"
  local other=$pid
  to=$group
  send group --size 200 --rate 5kpps --count 200
  [ $code -eq 0 ] || die "to a group: exit code $code"
  seen plain $plain && [ "$seen" = 200 ] || die "a plain member: $seen"
  ended one $one && ended two $two
  stop other $other INT
  holds group one two other 'group["sent"] == one["packets"] == two["packets"] == 200 and other["packets"] == 0 and one["lost"] == two["lost"] == 0'
  in_a "$wharf" forward "udp:239.195.7.1:$port" null 2>"$out/both.err"
  [ $? -eq 2 ] && one_line both "dest=frame" || die "a group for both ways: $(cat "$out/both.err")"
  echo "a group: 200 of 200 at a plain member and at two ends of ours, none elsewhere"
}

nobody_there() { # an absent peer is reported, and the sender goes on: a later peer gets the rest
  port 127.0.0.1
  to=udp:127.0.0.1:$port
  send alone --size 100 --count 5000
  [ $code -eq 1 ] || die "no listener: exit code $code"
  one_line alone "no program listens"
  holds alone 'alone["packets"] == 5000 == alone["sent"] + alone["failed"] and alone["failed"] > 0 and alone["pool"]["out"] == 0
    and alone["drops"] == {"total": alone["failed"], "by_reason": {"connection-refused": alone["failed"]}}'
  "${here[@]}" "$wharf" send --to "$to" --size 100 --rate 1kpps --seconds 30 --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  for name in early late; do
    sleep 0.5
    receive $name "udp:127.0.0.1:$port" --count 200
    ended $name $pid
  done
  stop sent $sender TERM
  # It says so as it goes on, too.
  tail -n 1 "$out/sent.err" | grep -q "no program listens" || die "sent: does not end with its error"
  holds sent early late 'set(sent["drops"]["by_reason"]) == {"connection-refused"} and early["packets"] == late["packets"] == 200 and sent["packets"] > 400'
  echo "no listener: reported in a line and counted by reason; a later listener gets the datagrams sent from then on"
}

# Runs in a network namespace of its own, whose loopback it may change, as root of nothing else.
cat >"$out/changed.sh" <<'S'
set -u
wharf=$1 out=$2
run() { # NAME MOST ARGUMENTS...
  : >"$out/count.err"
  python3 tests/udp_peer.py count 127.0.0.1:7000 3 "$2" >"$out/count" 2>"$out/count.err" & peer=$!
  until grep -q ready "$out/count.err"; do kill -0 $peer || exit 1; sleep 0.05; done
  "$wharf" send --to udp:127.0.0.1:7000 --json "${@:3}" >"$out/$1.json" 2>"$out/$1.err" || exit 1
  wait $peer
}
ip link set lo mtu 600 up || exit 3
python3 tests/udp_peer.py refuses 127.0.0.1:7000 1200 || exit 1
run apart 3000 --size 1242 --rate 5kpps --count 3000
cp "$out/count" "$out/count.apart"
run whole 3000 --size 1242 --gso 12k --rate 40mbit --count 3000
cp "$out/count" "$out/count.whole"
ip link set lo mtu 65536
tc qdisc add dev lo root tbf rate 40mbit burst 64k limit 20m || exit 3
run slow inf --size 1242 --seconds 2
cp "$out/count" "$out/count.slow"
S
changed_loopback() {
  within 60 unshare -rn bash "$out/changed.sh" "$wharf" "$out" >"$out/changed.err" 2>&1
  code=$?
  if [ $code -eq 3 ] || ! unshare -rn true 2>/dev/null; then
    [ "${CI:-}" != true ] || die "no network of its own, or no tbf"
    echo "a loopback that is changed: not here"
    return
  fi
  [ $code -eq 0 ] || die "a loopback that is changed: exit code $code"
  holds apart "apart['packets'] == $(cat "$out/count.apart") == 3000 and apart['drops']['total'] == 0"
  echo "MTU 600: the kernel refuses segments of 1200 bytes ($(head -n 1 "$out/changed.err")); all 3000 arrive, one by one"
  holds whole "$(cat "$out/count.whole") == 3000 and whole['packets'] < 400 and whole['drops']['total'] == 0"
  echo "MTU 600: super-packets arrive as well, datagram by datagram"
  holds slow "slow['packets'] == $(cat "$out/count.slow") > 1000 and slow['drops']['total'] == 0
    and slow['requeues'] > 0 and slow['gbps'] < 0.08 and slow['senders'][0]['waits'] > 0"
  echo "40 Mbit/s: a full socket buffer makes senders wait, and every datagram arrives"
}

# As above, with a pair of interfaces, at the other end of which no host answers.
cat >"$out/unreachable.sh" <<'S'
set -u
wharf=$1 out=$2
ip link add near type veth peer name far && ip link set near up && ip link set far up && ip address add 10.5.0.1/24 dev near || exit 3
ip link set lo up
# The kernel gives a neighbour up after three seconds, and reports from then on.
"$wharf" send --to udp:10.5.0.2:7000 --size 60 --seconds 4 --json >"$out/unreached.json" 2>"$out/unreached.err"
[ $? -eq 1 ] || exit 1
# Without loopback, the kernel reports nothing.
ip link set lo down
"$wharf" send --to udp:10.5.0.3:7000 --size 60 --count 10 --json >"$out/unreported.json" 2>"$out/unreported.err"
[ $? -eq 1 ] || exit 1
S
unreachable() {
  within 60 unshare -rn bash "$out/unreachable.sh" "$wharf" "$out" >"$out/unreachable.err" 2>&1
  code=$?
  if [ $code -eq 3 ] || ! unshare -rn true 2>/dev/null; then
    [ "${CI:-}" != true ] || die "no network of its own"
    echo "a host that does not answer: not here"
    return
  fi
  [ $code -eq 0 ] || die "a host that does not answer: exit code $code"
  one_line unreached "no neighbour answers"
  one_line unreported "no neighbour answers"
  holds unreached 'unreached["drops"]["by_reason"] == {"unreachable": unreached["failed"]} and unreached["failed"] > 0
    and unreached["packets"] == unreached["sent"] + unreached["failed"] and unreached["pool"]["out"] == 0'
  echo "no neighbour: reported in a line, exit code 1; what the kernel reports is counted"
}

names() { # a name server that answers in the frames of the questions
  for host in 127.0.0.1 ::1; do
    port $host
    start dns "answering at" sh -c 'exec "$1" "$2" >&2' - "${wharf%/*}/examples/dns" "$(case $host in *:*) echo "[$host]" ;; *) echo $host ;; esac):$port"
    for number in 1:one 4:four 9:NINE; do
      answer=$(within 20 dig +short +tries=2 @$host -p "$port" "${number#*:}.wharf.test") || die "dig"
      [ "$answer" = "192.0.2.${number%:*}" ] || die "${number#*:}: $answer"
    done
    for refusal in ten.wharf.test:NXDOMAIN example.org:REFUSED; do
      answer=$(within 20 dig +tries=2 @$host -p "$port" "${refusal%:*}") && grep -q "status: ${refusal#*:}" <<<"$answer" || die "$refusal: $answer"
    done
    kill "$pid"
    wait "$pid" 2>/dev/null
  done
  echo "dig gets right answers, by IPv4 and IPv6"
}

what_cannot_be() {
  port 127.0.0.1
  refused foreign "no address of this machine" "$wharf" receive --from udp:192.0.2.1:5000 --seconds 5
  refused low "CAP_NET_BIND_SERVICE" "$wharf" receive --from udp:127.0.0.1:53 --seconds 5
  refused scope "wants its interface" "$wharf" send --to "udp:[fe80::1]:5000" --count 5
  refused scope "wants its interface" "$wharf" receive --from "udp:[fe80::1]:5000" --seconds 5
  refused unknown "no address of nobody.invalid" "$wharf" send --to udp:nobody.invalid:5000 --count 5
  receive held "udp:127.0.0.1:$port"
  refused taken "in use" "$wharf" receive --from "udp:127.0.0.1:$port" --seconds 5
  to=udp:127.0.0.1:$port
  send long --size 65024 --frame-bytes 65536 --frames 64 --count 5
  [ $code -eq 0 ] || die "as long as frames can be: exit code $code"
  stop held $pid INT
  holds held 'held["packets"] + held["drops"]["total"] == 5'
  echo "what cannot be: one line, exit code 1"
}

[ "$(id -u)" -ne 0 ] || echo "without privileges: $(setpriv --bounding-set=-all grep CapEff /proc/self/status | tr '\t' ' ')"
to_python
from_python
own_ends
by_frame
groups
nobody_there
changed_loopback
unreachable
names
what_cannot_be
