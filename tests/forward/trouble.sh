# What goes wrong between two hosts of `wharf forward`: frames that lie, are too long or too short, and links, interfaces and
# namespaces that go away under traffic. Sourced by tests/forward.sh.
# shellcheck shell=bash disable=SC2154

# Packets that the kernel itself sends before the far TAP is up fail as link-down.
lies() { # NAME INTERFACE INTERFACE: a packet socket sends frames with false metadata beside ordinary ones, which must arrive
  local name=$1 load before
  before=$(received "$3")
  receive_in_c got "$3"
  in_a "$wharf" send --to "packet:$2" --size 200 --rate 2kpps --count 2000 --json >"$out/load.json" 2>"$out/load.err" &
  load=$!
  in_a python3 tests/forward/lies.py "$2" 10 >"$out/lies.json" 2>"$out/lies.err" || die "$name: no lies"
  wait $load || die "$name: the sender"
  arrive "$3" $((before + 2000)) "of 2000"
  stop got "$receiver" INT
  forwarded
  # The kernel drops two lies of its own accord, in front of a TAP, and counts them with frames that found no room there.
  holds got 'got["packets"] - got["unstamped"] == 2000 and got["lost"] == got["reordered"] == got["duplicated"] == 0'
  holds lies forward 'lies["nothing behind the Ethernet header"] == lies["segments longer than the MTU"] == 10
    and forward["directions"][0]["drops"]["by_reason"]["too-short"] == 10
    and (drops := forward["directions"][0]["drops"]["by_reason"]).get("ring-full", 0) <= 20 and drops.keys() <= {"ring-full",
      "link-down", "too-short", "too-long", "gso-size", "gso-kind", "gso-header", "gso-checksum"}'
  python3 - "$out" "$name" <<'P'
import json, sys
lies, forward = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("lies", "forward"))
reasons = ", ".join(f"{why} {count}" for why, count in forward["directions"][0]["drops"]["by_reason"].items())
print(f"{sys.argv[2]}: of {len(lies)} lies the kernel believes {sum(map(bool, lies.values()))}; dropped: {reasons}; nothing else disturbed")
P
}

# load_to INTERFACE: sends frames from ha, process $load, and waits until they arrive at c's interface.
load_to() {
  local before
  before=$(received "$1")
  ip netns exec $a "$wharf" send --to packet:ha --size 200 --rate 5kpps --seconds 60 --json >"$out/load.json" 2>"$out/load.err" &
  load=$!
  arrive "$1" "$((before + 100))" "through a forwarder that has just started"
}

no_load() {
  kill "$load" 2>/dev/null
  wait "$load" 2>/dev/null
}

# under_traffic A B [ARGUMENTS...]: forwards frames from ha to hb through A and B.
under_traffic() {
  forward "$@"
  load_to hb
}

# goes_on INTERFACE 'AFTER WHAT': checks that frames arrive there again.
goes_on() {
  arrive "$1" "$(($(received "$1") + 100))" "after $2"
}

# forwarder_says 'TEXT': waits until the forwarder has printed TEXT on standard error.
forwarder_says() {
  soon grep -q "$1" "$out/forward.err" || die "it does not say: $1"
}

peer_down() { # KIND: the far host switches its end off, and on again
  local load
  under_traffic "$1:fa" "$1:fb"
  ip -n $c link set hb down
  sleep 0.3
  ip -n $c link set hb up
  goes_on hb "the peer is back"
  forwarded
  ip -n $c addr flush dev hb
  addresses $c hb 2
  no_load
  echo "$1: the peer down and up again: on it goes"
}

namespace_gone() { # KIND: the far host's, and its end of the pair with it
  local load
  under_traffic "$1:fa" "$1:fb" --on-gone fail
  ip netns del $c
  ended forward "$forwarder"
  [ $code -eq 1 ] || die "$1: a namespace is gone: exit code $code"
  grep -q "is gone" "$out/forward.err" || die "$1: it does not say that the interface is gone"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])'
  no_load
  space $c
  host $c hb fb 2
  echo "$1: a namespace deleted under traffic: one line, exit code 1, summary"
}

# arrivals_end KIND idle|traffic COMMAND...: the receiving interface goes away, and no send reports it: the forwarder notices
# nevertheless (within 2 s on an idle machine; a namespace takes its time to go).
arrivals_end() {
  local kind=$1 traffic=$2 load=""
  shift 2
  if [ "$traffic" = traffic ]; then
    under_traffic "$kind:fa" "$kind:fb" --on-gone fail
  else
    forward "$kind:fa" "$kind:fb" --on-gone fail
    sleep 0.5
  fi
  "$@" || die "$kind, $traffic: it does not go"
  forwarder_says "is gone"
  ended forward "$forwarder"
  [ $code -eq 1 ] || die "$kind, $traffic: an interface is gone: exit code $code"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])'
  [ -z "$load" ] || no_load
}

arrivals_gone() { # KIND
  local traffic
  for traffic in traffic idle; do
    arrivals_end "$1" $traffic ip -n $b link del fa
    host $a ha fa 1
  done
  arrivals_end "$1" idle ip netns del $a
  space $a
  host $a ha fa 1
  echo "$1: what frames arrive by goes, idle or not: one line, exit code 1, summary"
}

tap_goes() { # its namespace is deleted under traffic
  local load
  forward xdp:fa tap:tb --on-gone fail
  tap_host $c tb 2
  load_to tb
  ip -n $c link set tb down
  sleep 0.3
  ip -n $c link set tb up
  goes_on tb "the TAP is up again"
  ip netns del $c
  ended forward "$forwarder"
  [ $code -eq 1 ] || die "tap: a namespace is gone: exit code $code"
  grep -q "is gone" "$out/forward.err" || die "tap: it does not say that the interface is gone"
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"]) and forward["directions"][0]["sent"] > 200'
  no_load
  space $c
  host $c hb fb 2
  echo "tap: down and up again, and its namespace deleted under traffic: one line, exit code 1, summary"
}

down_and_up() { # WHAT: the forwarder's second link goes down under traffic, and comes back
  ip -n $b link set fb down
  forwarder_says "the interface is down"
  sleep 0.3
  ip -n $b link set fb up
  goes_on hb "$1"
  forwarder_says "fb: the interface is up again after [0-9.]* s, [0-9][^,]* dropped meanwhile"
}

# made_again KIND [LINK]: the forwarder's second interface is deleted under traffic, and made again.
made_again() {
  ip -n $b link del fb
  forwarder_says "$1:fb.*: the interface is gone.*packets wait until it is back"
  host $c hb fb 2 "${2:-}"
  forwarder_says "$1:fb: open again after"
  goes_on hb "the interface is made again"
}

links() { # KIND: the link goes down and comes back under traffic, then is made again
  local kind=$1 load
  under_traffic "$kind:fa" "$kind:fb"
  down_and_up "the link is back"
  made_again "$kind"
  forwarded
  holds forward 'all(one["pool"]["out"] == 0 for one in forward["directions"])
    and forward["directions"][0]["drops"]["by_reason"].get("link-down", 0) > 0'
  no_load
  echo "$kind: a link down and up again, or deleted and made again: dropped, counted, and on it goes"
}

on_a_terminal() { # messages stay, above a line of progress no longer than the terminal is wide
  local load
  start forward "forwarding" python3 tests/forward/terminal.py run "$wharf" forward packet:fa packet:fb
  forwarder=$pid
  load_to hb
  down_and_up "the link is back"
  stop forward "$forwarder" INT
  [ $code -eq 0 ] || die "on a terminal: exit code $code"
  no_load
  python3 tests/forward/terminal.py judge "$out/forward.err" "the interface is down" "is up again after" || die "on a terminal"
  echo "on a terminal: each message is kept"
}

one_pair() { # both ends of one veth pair
  ip -n $b link add near type veth peer name far && ip -n $b link set near up && ip -n $b link set far up || die "no pair"
  forward packet:near packet:far
  forwarder_says "packet:near and packet:far are the two ends of one veth pair"
  forwarded
  forward packet:near packet:fb
  forwarded
  grep -q "veth pair" "$out/forward.err" && die "near and fb are no pair"
  ip -n $b link del near
  echo "both ends of one pair: it says so"
}

odd_frames() { # KIND: frames too long for the other end, and runts; a mirror has exactly the sent ones
  local before
  forward "$1:fa" "$1:fb" --mirror "$out/mirror.pcap"
  for at in "$a ha" "$b fa"; do
    # shellcheck disable=SC2086
    ip -n ${at% *} link set "${at#* }" mtu 3000 || die "no MTU"
  done
  to=packet:ha
  send long --size 2000 --frame-bytes 2560 --count 50
  before=$(received hb)
  send short --size 200 --count 50
  arrive hb $((before + 50)) "of 50 short ones"
  forwarded
  holds forward 'forward["directions"][0]["drops"]["by_reason"].get("too-long", 0) >= 50
    and forward["directions"][0]["packets"] >= 50
    and all(one["sent"] + one["failed"] == one["packets"] and one["failed"] == one["drops"]["total"] == one["queues"][0]["failed"]
      for one in forward["directions"][:1])
    and forward["mirror"]["frames"] == sum(one["sent"] for one in forward["directions"])'
  grep -q "is too long" "$out/forward.err" || die "$1: it does not say that frames are too long"
  mtu 1500
  echo "$1: frames too long for the other end: counted, and nothing else disturbed"
}
