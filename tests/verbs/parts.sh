# The parts of tests/verbs.sh, each on the guest that is running.
# shellcheck shell=bash

# Memory for the datagrams of a port whose MTU is 4096.
memory="--frame-bytes 4672"
# The other end of an end, and its address.
declare -A far=([l]=r [r]=l) address=([l]=10.9.0.1 [r]=10.9.0.2)
device() { echo "verbs:rxe-$1"; }
towards() { echo "verbs:rxe-$1,peer=${address[${far[$1]}]}${2:-}"; }

# listening END ARGUMENTS...: starts the receiver `got`.
listening() {
  local end=$1
  shift
  guest "begin got 'listening on' $end wharf receive --from $(device "$end") --frames 8192 $memory --json $*" || die "no receiver: $reply"
}

# ended_well SIGNAL NAME...: ends runs in the background, and reports them.
ended_well() {
  local signal=$1 name
  shift
  guest "sleep 0.3"
  for name; do guest "finish $name $signal" || { report "$name"; die "$name: $reply"; }; report "$name"; done
}

# crossing END KEYS ARGUMENTS...: numbered frames from that end to the other one.
crossing() {
  local from=$1 keys=$2
  shift 2
  listening "${far[$from]}"
  guest "run sent $from wharf send --to $(towards "$from" "$keys") --json $*" || { report sent; die "no sender: $reply"; }
  report sent
  ended_well TERM got
}

examinations() {
  guest "run found l wharf doctor $(device l) $memory --json" || { report found; die "doctor: $reply"; }
  report found
  holds found '{way["direction"] for way in found["devices"][0]["directions"] if way["usable"]} == {"send", "receive"}'
  grep -q 'RoCE' "$out/found.json" && grep -q '1: 10.9.0.1' "$out/found.json" || die "doctor names neither port nor GID"
  guest "run none l wharf doctor verbs:none" && die "doctor finds verbs:none"
  guest "run none l wharf send --to verbs:none --count 1" && die "verbs:none is opened"
  report none
  one_line none "no such RDMA device; there are rxe-l, rxe-r"
  guest "run none l wharf send --to $(device l),gid=200 --count 1" && die "gid=200 is opened"
  report none
  one_line none "entry 200 is free"
  guest "run none l wharf receive --from $(device l) --count 1" && die "frames of 1536 bytes are memory for datagrams of 4096"
  report none
  one_line none "use --frame-bytes 4672"
  echo "doctor has the port and its GIDs; a device and a GID that are not there, and short memory: one line each"
}

each_way() {
  local end
  for end in l r; do
    crossing "$end" "" --imix --count 3000 --speed 3kpps
    holds sent got 'sent["packets"] == sent["sent"] == got["packets"] == 3000 and sent["bytes"] == got["bytes"]
      and got["lost"] == got["reordered"] == got["duplicated"] == got["drops"]["total"] == sent["drops"]["total"] == 0
      and sent["mode"].startswith("linked") and sent["bql"]["enabled"] and sent["pool"]["out"] == got["pool"]["out"] == 0'
    crossing "$end" "" --size 60 --seconds 1
    holds sent got 'sent["drops"]["total"] == got["reordered"] == got["duplicated"] == 0 and 0 < got["packets"] <= sent["sent"]
      and sent["pool"]["out"] == got["pool"]["out"] == 0'
    echo "$end to ${far[$end]}: 3000 frames at a pace, all there and in order; at full speed $(python3 -c '
import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
print("%d of %d arrived, %.1f packets a doorbell" % (got["packets"], sent["sent"], sent["packets_per_doorbell"]))' "$out")"
  done
}

one_by_one() {
  crossing l ",batch=off" --imix --count 3000 --speed 3kpps
  holds sent got 'sent["sent"] == got["packets"] == 3000 and got["lost"] == got["reordered"] == 0 and sent["mode"].startswith("one by one")
    and sent["pool"]["out"] == got["pool"]["out"] == 0'
  echo "batch=off: 3000 frames, each a post of its own, all there and in order"
}

# Each byte behind the Ethernet addresses is as it was; the addresses are those of the ports.
bytes() {
  local end
  for end in l r; do
    guest "run written - wharf send --imix --count 600 --to pcap:/tmp/in.pcap --json" || die "no capture"
    listening "${far[$end]}" --pcap /tmp/out.pcap
    guest "run sent $end wharf send --pcap /tmp/in.pcap --speed 3kpps --to $(towards "$end") --json" || { report sent; die "no sender"; }
    ended_well TERM got
    fetch /tmp/in.pcap "$out/in.pcap" && fetch /tmp/out.pcap "$out/out.pcap"
    python3 tests/verbs/same.py "$out/in.pcap" "$out/out.pcap" "${address[${far[$end]}]}" "${address[$end]}" || die "other bytes"
  done
  echo "600 frames of a capture each way: each byte behind the addresses, and the addresses of the ports"
}

# disturbed NAME REASON COMMAND: a sender and a receiver go on over it, and say what happened. No frame of memory is lost.
disturbed() {
  local name=$1 says=$2
  guest "begin got 'listening on' r wharf receive --from $(device r) --frames 8192 $memory --json --on-gone reopen" || die "no receiver: $reply"
  guest "begin sent 'until a signal' l wharf send --to $(towards l) --size 200 --rate 1kpps --json --on-gone reopen; sleep 1.5"
  guest "$3" || die "$name: $reply"
  # Packets that failed, or were lost, make the exit code 1, and a line says so.
  guest "sleep 4; finish sent TERM; sleep 0.5; finish got TERM"
  report sent && report got
  grep -v '^wharf: ' "$out/sent.err" "$out/got.err" && die "$name: more than messages"
  grep -q "$says" "$out/sent.err" "$out/got.err" || die "$name: nothing says $says"
  echo "$name: $(python3 -c '
import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
print("%d taken, %d sent, %d arrived, %s" % (sent["packets"], sent["sent"], got["packets"], sent["drops"]["by_reason"] or "no drops"))' "$out"); it says: $(grep -h "$says" "$out/sent.err" "$out/got.err" | head -n 1)"
  holds sent got 'sent["pool"]["out"] == got["pool"]["out"] == 0 and got["reordered"] == got["duplicated"] == 0'
  # Traffic flows behind it: more than came in the second and a half before.
  holds sent got 'got["packets"] > 2500'
}

# The address goes, and the GID with it: soft-RoCE cannot send, and puts the queue pair into the error state.
in_error() {
  disturbed "queue pair in error" "queue pair is in error" "ip -n l addr del 10.9.0.1/24 dev va; sleep 1; ip -n l addr add 10.9.0.1/24 dev va"
  disturbed "port down and up" "not active\|in error" "ip -n l link set va down; sleep 1; ip -n l link set va up"
}

removed() {
  disturbed "sender's device removed" "device is gone" "/tools/rdma link delete rxe-l; sleep 0.5; soft_roce l va"
  disturbed "receiver's device removed" "device is gone" "/tools/rdma link delete rxe-r; sleep 0.5; soft_roce r vb"
}

lost_completions() {
  local lost
  crossing l "" --size 200 --count 3000 --speed 3kpps --fault lost=50%,half=10%
  lost=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["faults"]["injected"]["lost"])' "$out/sent.json")
  holds sent got 'sent["sent"] == got["packets"] == 3000 and got["lost"] == got["reordered"] == 0
    and sent["pool"]["out"] == got["pool"]["out"] == 0'
  [ "$lost" -gt 5 ] || die "only $lost completions were lost"
  echo "$lost calls that fetch completions find none, as if their notification were lost: 3000 frames, all there and in order"
}

# After SIGKILL under traffic no queue pair is left, and the next run has the port.
killed() {
  listening r
  guest "begin sent 'until a signal' l wharf send --to $(towards l) --size 60 --rate 1kpps; sleep 1; kill -9 \$(cat /tmp/got.pid) \$(cat /tmp/sent.pid); wait; sleep 0.3; left"
  [ -z "$reply" ] || die "left after SIGKILL: $reply"
  crossing l "" --size 60 --count 500 --speed 3kpps
  holds sent got 'sent["sent"] == got["packets"] == 500'
  guest left
  [ -z "$reply" ] || die "left at the end: $reply"
  echo "killed under traffic: no queue pair is left, the next run works, and the kernel has no complaint"
}
