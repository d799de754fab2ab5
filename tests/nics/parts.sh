# The parts of tests/nics.sh, each on the guest that is running, with adapters of kind $adapter.
# shellcheck shell=bash

# Frames of zero-copy on `igb` want buffers of 2 KiB beside the headroom.
memory="--frame-bytes 2560"

# macs FROM TO: prints --mac for frames between two of the adapters, by their numbers.
macs() { echo "--mac 02:00:00:00:00:1$1,02:00:00:00:00:1$2"; }

# report NAME: brings the JSON and the messages of a run here.
report() {
  local kind
  for kind in json err; do
    # The port may have garbled the command: then the file of an earlier run would be taken for this one's.
    guest "cat /tmp/$1.$kind" || guest "cat /tmp/$1.$kind" || die "$1.$kind does not come: $reply"
    # No run ends without JSON: the port has lost it.
    [ "$kind$reply" != json ] || guest "cat /tmp/$1.$kind"
    printf '%s' "$reply" >"$out/$1.$kind"
  done
}

# fetch FILE TO: brings a file of any bytes here, by the second serial line.
fetch() {
  local before length
  before=$(stat -c %s "$out/files")
  guest "stat -c %s $1; give $1" || die "no file $1"
  length=${reply%%[[:space:]]*}
  for _ in $(seq 100); do
    [ "$(stat -c %s "$out/files")" -ge $((before + length)) ] && break
    sleep 0.1
  done
  tail -c +$((before + 1)) "$out/files" | head -c "$length" >"$2"
}

# opened SIDE MODE: opens eth0 in that mode for a moment. Prints the mode that it came to, or `-` and the refusal.
opened() {
  local command
  case $1 in
    send) command="send --to xdp:eth0,mode=$2 --size 60 --count 20 $memory $(macs 0 2)" ;;
    receive) command="receive --from xdp:eth0,mode=$2 --seconds 0.1 $memory" ;;
    both) command="forward xdp:eth0,mode=$2 xdp:eth1,mode=$2 --seconds 0.1 $memory" ;;
  esac
  # An adapter that is set up anew has no carrier for a while: a run that ends meanwhile says so, and has a mode all the same.
  guest "run opened - wharf $command --json"
  guest "sed -n 's/.*\"mode\": \"\(.*\)\",/\1/p' /tmp/opened.json | sort -u"
  if [[ $reply = *[a-z]* ]]; then
    printf '%s' "${reply%%[[:space:]]}"
  else
    guest "tail -n 1 /tmp/opened.err" && printf -- '- %s' "${reply%%[[:space:]]}"
  fi
}

modes() {
  local side mode got want
  printf '%-10s %-9s %s\n' "$adapter" asked "came to"
  for side in send receive both; do
    # What auto comes to without copying, zerocopy has, too.
    for mode in $([[ $(expected $side auto) = zero-copy ]] || echo zerocopy) auto; do
      got=$(opened $side $mode)
      printf '%-10s %-9s %s\n' $side $mode "$got"
      want=$(expected $side $mode)
      [[ $got = $want ]] || die "$adapter, $side, $mode: $got, not $want"
    done
  done
}

# expected SIDE MODE: prints the mode that the adapter has, as a pattern.
expected() {
  case $adapter-$1-$2 in
    igb-* | virtio_net-send-* | virtio_net-receive-* | virtio_net-both-*) echo zero-copy ;;
    *-zerocopy) echo "- *mode=auto*" ;;
    *-send-*) echo copy ;;
    e1000e-*) echo "generic, copy" ;;
    *) echo "native, copy" ;;
  esac
}

# numbered 'SPACE FROM' 'SPACE TO' ARGUMENTS OF SEND...: sends numbered frames from one adapter to another.
numbered() {
  local from_space=$1 from=$2 to_space=$3 to=$4
  shift 4
  guest "begin got 'listening on' $to_space wharf receive --from xdp:eth$to --frames 8192 $memory --json" || die "no receiver: $reply"
  guest "run sent $from_space wharf send --to xdp:eth$from $(macs "$from" "${to%%,*}") $memory $* --json" || { report sent; die "no sender"; }
  guest "sleep 0.5; finish got TERM"
  report sent && report got
}

frames_each_way() {
  local ends
  for ends in "- 0 l 2" "l 2 - 0"; do
    # At a pace that an emulated receiver keeps up with, nothing is lost.
    numbered $ends --imix --rate 1500pps --count 3000
    holds sent got 'sent["packets"] == sent["sent"] == got["packets"] == 3000 and sent["bytes"] == got["bytes"]
      and got["lost"] == got["reordered"] == got["duplicated"] == got["drops"]["total"] == 0
      and sent["pool"]["out"] == got["pool"]["out"] == 0'
    numbered $ends --imix --seconds 1.5
    echo "$adapter: eth${ends:2:1} to eth${ends: -1}: 3000 frames at a pace, all there and in order; at full speed $(python3 -c '
import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
print("%d of %d arrived (%s, %s), %d reordered, %d twice, drops %s" % (got["packets"], sent["sent"], sent["mode"], got["mode"],
  got["reordered"], got["duplicated"], sent["drops"]["by_reason"]))' "$out")"
    holds sent got 'sent["drops"]["total"] == 0 and got["reordered"] == got["duplicated"] == 0
      and 0 < got["generated"]["packets"] <= sent["sent"] - got["lost"]
      and sent["pool"]["out"] == got["pool"]["out"] == 0'
  done
}

# all_queues: flows that the adapter spreads over two queues all arrive; by one of the queues, some do.
all_queues() {
  local all one
  guest "ethtool -L eth0 combined 2" || { echo "$adapter: one queue only"; return; }
  # By ports, too: a fragment would come by another queue, which is why it is not the driver's default.
  guest "ethtool -N eth0 rx-flow-hash udp4 sdfn; carrier eth0; sleep 1"
  numbered l 2 - 0 --flows 200 --size 200 --rate 1500pps --count 4000
  holds sent got 'sent["sent"] == got["packets"] == 4000 and got["lost"] == got["duplicated"] == got["drops"]["total"] == 0
    and got["pool"]["out"] == 0'
  all=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["mode"])' "$out/got.json")
  numbered l 2 - 0,queue=1 --flows 200 --size 200 --rate 1500pps --count 4000
  holds got '500 < got["packets"] < 3500 and got["drops"]["total"] == 0'
  one=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["packets"])' "$out/got.json")
  guest "rest; ethtool -L eth0 combined 1; carrier eth0"
  [ -z "$reply" ] || die "$adapter: left at the end: $reply"
  echo "$adapter: 4000 frames of 200 flows by two queues ($all), all there; $one of them by one queue"
}

same_bytes() {
  guest "run written - wharf send --imix --count 600 $(macs 0 2) --to pcap:/tmp/in.pcap --json && ls /tmp/in.pcap" || die "no capture"
  guest "begin got 'listening on' l wharf receive --from xdp:eth2 --pcap /tmp/out.pcap $memory --json" || die "no receiver"
  guest "run sent - wharf send --pcap /tmp/in.pcap --speed 1kpps --to xdp:eth0 $memory --json" || die "no sender"
  guest "sleep 0.3; finish got TERM"
  fetch /tmp/in.pcap "$out/in.pcap" && fetch /tmp/out.pcap "$out/out.pcap"
  same "$out/in.pcap" "$out/out.pcap" "$adapter"
  echo "$adapter: 600 frames of a capture, byte for byte"
}

# iperf NAME SPACE ARGUMENTS...: prints the Mbit/s that arrived, and the segments that were sent again.
iperf() {
  local name=$1 space=$2
  shift 2
  guest "run $name $space iperf3 --json -c $*" || die "iperf3: $(report "$name"; head -c 300 "$out/$name.json")"
  report "$name"
  python3 -c 'import json, sys
end = json.load(open(sys.argv[1]))["end"]
print(round(end["sum_received"]["bits_per_second"] / 1e6, 1), end["sum_sent"]["retransmits"])' "$out/$name.json"
}

# TCP connections of the host by the very queue that wharf sends from. The two processors are emulated, and shared by all, so the rate says
# little: it goes on, and every ping has its answer. A sender of few packets shows the cost of the queue alone.
host_tcp() {
  local alone beside direction rate
  guest "ip addr add 10.8.0.1/24 dev eth0; ip -n l addr add 10.8.0.2/24 dev eth2; begin server 'listening' l iperf3 -s --forceflush" || die "no server: $reply"
  alone=$(iperf alone - 10.8.0.2 -t 1) || die "$alone"
  for rate in 10pps 500pps; do
    guest "begin sent 'until a signal' - wharf send --to xdp:eth0 --size 60 --rate $rate $memory $(macs 0 2) --json; sleep 1; carrier eth0; sleep 1"
    for direction in "" -R; do
      beside=$(iperf beside - 10.8.0.2 -t 2 $direction) || die "$beside"
      echo "$adapter: TCP ${direction:+towards us }by the queue that wharf sends $rate from: ${beside% *} Mbit/s, ${beside#* } sent again; before, from us: ${alone% *}, ${alone#* }"
      python3 -c 'import sys; alone, beside = map(float, sys.argv[1:]); sys.exit(beside < alone / 10)' "${alone% *}" "${beside% *}" || die "$adapter: TCP stalls"
    done
    [ $rate = 10pps ] && guest "finish sent TERM; carrier eth0"
  done
  guest "ping -c 20 -A -W 2 10.8.0.2 | grep -o '[0-9]* packets received'"
  [ "${reply%% *}" -eq 20 ] || die "$adapter: pings: $reply"
  guest "finish sent TERM; finish server TERM; ip addr flush dev eth0; ip -n l addr flush dev eth2"
  report sent
  holds sent 'sent["sent"] > 500 and sent["drops"]["total"] == 0 and sent["pool"]["out"] == 0'
}

# steered: the receiver has its flow, and the host the rest, over one queue.
steered() {
  local rate
  guest "ip addr add 10.8.0.1/24 dev eth0; ip -n l addr add 10.8.0.2/24 dev eth2"
  guest "begin got 'listening on' - wharf receive --from xdp:eth0,steer=udp:9 $memory --json; carrier eth0" || die "no receiver: $reply"
  guest "begin server 'listening' - iperf3 -s --forceflush" || die "no server: $reply"
  guest "begin sent '' l wharf send --to packet:eth2 --size 200 --rate 500pps --count 1000 $(macs 2 0) --json"
  rate=$(iperf there l 10.8.0.1 -t 1) || die "$rate"
  guest "await sent; sleep 0.5; finish got TERM; finish server TERM; ip addr flush dev eth0; ip -n l addr flush dev eth2"
  report got
  holds got 'got["packets"] == got["generated"]["packets"] == 1000 and got["lost"] == got["drops"]["total"] == 0'
  echo "$adapter: steer=udp:9: 1000 frames of the receiver's, and TCP of the host's at ${rate% *} Mbit/s beside, by one queue"
}

forwarding() {
  local rate back
  # Frames are addressed to the adapters at the far ends.
  guest "ip link set eth0 promisc on; ip link set eth1 promisc on; ip -n l addr add 10.9.0.1/24 dev eth2; ip -n r addr add 10.9.0.2/24 dev eth3"
  guest "begin forward 'wharf: forwarding' - wharf forward xdp:eth0 xdp:eth1 $memory --json; carrier eth0; carrier eth1" || die "no forwarder: $reply"
  guest "begin server 'listening' r iperf3 -s --forceflush" || die "no server: $reply"
  rate=$(iperf there l 10.9.0.2 -t 1) || die "$rate"
  back=$(iperf back l 10.9.0.2 -t 1 -R) || die "$back"
  guest "finish server TERM; finish forward TERM" || die "forward: $reply"
  report forward
  holds forward 'all(one["pool"]["out"] == 0 and one["packets"] > 0 for one in forward["directions"])'
  guest "ip link set eth0 promisc off; ip link set eth1 promisc off; ip -n l addr flush dev eth2; ip -n r addr flush dev eth3"
  echo "$adapter: forwards eth0 to eth1 and back: iperf3 has ${rate% *} and ${back% *} Mbit/s"
}

# checksums SPEC 'PYTHON CONDITION ON ITS DIRECTION': connections that a host begins, whose checksums its kernel leaves unfinished, have right
# ones behind our sender.
checksums() {
  local bad all
  guest "ip link add ka type veth peer name kb; ip link set ka up; ip link set kb up; ip addr add 10.7.0.1/24 dev ka; ip neigh add 10.7.0.2 lladdr 02:00:00:00:00:12 dev ka"
  guest "begin forward 'wharf: forwarding' - wharf forward packet:kb $1 $memory --json; carrier eth0" || die "no forwarder: $reply"
  guest "begin got 'listening on' l wharf receive --from packet:eth2 --pcap /tmp/out.pcap $memory --json" || die "no receiver: $reply"
  guest "for port in \$(seq 100 140); do nc -w 2 10.7.0.2 \$port </dev/null & done 2>/dev/null; sleep 3; finish got TERM; finish forward TERM"
  guest "ip link del ka"
  fetch /tmp/out.pcap "$out/out.pcap"
  report forward
  bad=$(tshark -r "$out/out.pcap" -o tcp.check_checksum:TRUE -Y 'tcp.checksum.status == 0' 2>/dev/null | wc -l)
  all=$(tshark -r "$out/out.pcap" -Y 'tcp.dstport >= 100 && tcp.dstport <= 140' 2>/dev/null | wc -l)
  [ "$all" -ge 41 ] && [ "$bad" -eq 0 ] || die "$adapter: $1: $bad bad checksums in $all frames"
  holds forward "any($2 for one in forward['directions'] if 'eth0' in one['device'])"
  echo "$adapter: $1: $all frames that a host left unfinished, all with right checksums"
}

# near_memory: the pool's memory is on the adapter's node.
near_memory() {
  local pages
  guest "cat /sys/class/net/eth0/device/numa_node" && [ "${reply%%[[:space:]]*}" = 1 ] || { echo "$adapter: on no node"; return; }
  guest "begin got 'listening on' - wharf receive --from xdp:eth0 $memory --json; carrier eth0" || die "no receiver: $reply"
  guest "grep wharf-region /proc/\$(cat /tmp/got.pid)/numa_maps"
  pages=$reply
  guest "finish got TERM"
  grep -q 'prefer:1 .*N1=' <<<"$pages" && ! grep -q 'N0=' <<<"$pages" || die "$adapter: memory: $pages"
  guest "wharf -q doctor xdp:eth0 --no-probe"
  grep -q "adapter is on node 1" <<<"$reply" || die "doctor does not tell the node"
  echo "$adapter: memory $(grep -o 'N1=[0-9]*' <<<"$pages" | head -n 1) on the adapter's node, of two"
}

offloaded() {
  checksums xdp:eth0,mode=copy,csum=offload 'one["mode_reason"] is None'
  [[ $(expected send auto) != zero-copy ]] || checksums xdp:eth0,csum=offload '"no checksums" in one["mode_reason"]'
}

# disturbed NAME COMMAND: a sender by eth0 goes on over it, or ends and says why. No frame of memory is lost.
# Frames from eth2 to eth3 through a forwarder that polls the adapters in its own calls: drivers may send by another NAPI context than
# they receive by.
busy_polled() {
  guest "ip link set eth0 promisc on; ip link set eth1 promisc on"
  guest "begin forward 'wharf: forwarding' - wharf forward xdp:eth0,busy-poll=20 xdp:eth1,busy-poll=20 $memory --poll busy --json; carrier eth0; carrier eth1" ||
    die "no forwarder: $reply"
  guest "begin got 'listening on' r wharf receive --from packet:eth3 --json" || die "no receiver: $reply"
  guest "run sent l wharf send --to packet:eth2 --size 100 --rate 500pps --count 1000 $(macs 2 3) --json; sleep 0.5; finish got TERM; finish forward TERM" ||
    { report forward; die "busy polling: $reply"; }
  report got
  guest "ip link set eth0 promisc off; ip link set eth1 promisc off"
  holds got 'got["generated"]["packets"] == 1000 and got["lost"] == got["reordered"] == got["duplicated"] == 0'
  echo "$adapter: busy-poll=20: 1000 frames through a forwarder, all there and in order"
}

# A run that is killed leaves interrupts put off. The next receiver sets them back as it starts, without busy polling, too.
put_off() {
  guest "begin got 'listening on' - wharf receive --from xdp:eth0,busy-poll=20 $memory; kill -9 \$(cat /tmp/got.pid); wait; sleep 0.5; wharf -q doctor xdp:eth0,busy-poll=20 --no-probe"
  reply=$(tr -s ' \n' ' ' <<<"$reply")
  grep -q "are put off now" <<<"$reply" || die "$adapter: doctor sees no leftover: $reply"
  guest "run got - wharf receive --from xdp:eth0 --seconds 0.2 $memory --json; wharf -q doctor xdp:eth0,busy-poll=20 --no-probe"
  reply=$(tr -s ' \n' ' ' <<<"$reply")
  grep -q "queue by queue" <<<"$reply" && ! grep -q "are put off now" <<<"$reply" || die "$adapter: interrupts stay put off: $reply"
  echo "$adapter: busy-poll=20: the next receiver sets back the interrupts that a killed one left put off"
}

disturbed() {
  local name=$1 code
  guest "begin got 'listening on' l wharf receive --from xdp:eth2 --on-gone reopen $memory --json" || die "no receiver"
  guest "begin sent 'until a signal' - wharf send --to xdp:eth0 --size 200 --rate 1kpps $memory $(macs 0 2) --json; carrier eth0; sleep 1"
  guest "$2"
  guest "carrier eth0; sleep 2; finish sent TERM"
  code=$?
  guest "sleep 0.3; finish got TERM"
  report sent && report got
  # It says that packets wait, and that they leave again; at an end with an error the last line names the interface.
  grep -qv '^wharf: ' "$out/sent.err" && die "$adapter: $name: more than messages"
  [ $code -eq 0 ] || tail -n 1 "$out/sent.err" | grep -q 'eth0\|packets\? failed' || die "$adapter: $name: no reason"
  echo "$adapter: $name under traffic: $(python3 -c '
import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
print("%d taken, %d sent, %d arrived, %d reordered, %d twice, %s" % (sent["packets"], sent["sent"], got["packets"], got["reordered"],
  got["duplicated"], sent["drops"]["by_reason"] or "no drops"))' "$out")$([ $code -eq 0 ] || echo "; it says: $(tail -n 1 "$out/sent.err")")"
  holds sent got 'sent["pool"]["out"] == got["pool"]["out"] == 0'
  holds sent got 'got["packets"] > 1000 and got["reordered"] == got["duplicated"] == 0'
}

disturbances() {
  disturbed "link down and up" "ip link set eth0 down; sleep 1; ip link set eth0 up"
  disturbed "another MTU" "ip link set eth0 mtu 1400; sleep 2; ip link set eth0 mtu 1500"
  disturbed "ethtool -G" "ethtool -G eth0 rx 128 tx 128 || ethtool -G eth0 rx 512; sleep 1"
  disturbed "ethtool -L" "ethtool -L eth0 combined 2; sleep 1; ethtool -L eth0 combined 1"
  disturbed "driver unbound and bound" "rebind eth0"
}

# After SIGKILL under traffic the queue is free, and nothing is left on the interface.
killed() {
  guest "begin got 'listening on' - wharf receive --from xdp:eth0 $memory; begin sent 'until a signal' - wharf send --to xdp:eth1 --size 60 --rate 1kpps $memory $(macs 1 3)"
  guest "sleep 2; kill -9 \$(cat /tmp/got.pid) \$(cat /tmp/sent.pid); wait; sleep 0.5; rest"
  [ -z "$reply" ] || die "$adapter: left after SIGKILL: $reply"
  guest "carrier eth0; carrier eth1"
  guest "run got - wharf receive --from xdp:eth0 --seconds 0.2 $memory --json && run sent - wharf send --to xdp:eth1 --size 60 --count 50 $memory --json" || { report got; report sent; die "$adapter: the queues are not free"; }
  guest rest
  [ -z "$reply" ] || die "$adapter: left at the end: $reply"
  echo "$adapter: killed under traffic: queues are free, no program is left, and the kernel has no complaint"
}
