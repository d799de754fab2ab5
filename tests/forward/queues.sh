# `wharf forward --queues`: flows over several queues of veth pairs and TAPs, and over one at one end. Sourced by tests/forward.sh.
# shellcheck shell=bash disable=SC2154

# many_flows NAME FROM TO: sends 16 flows, a sender each, through the forwarder; none loses or reorders a frame.
many_flows() {
  local before
  # A TAP's queue of 500 frames would overflow when the machine pauses.
  ip -n $a link set "$2" txqueuelen 20000
  before=$(received "$3")
  receive_in_c got "$3"
  to=packet:$2
  send flows --senders 16 --size 200 --rate 8kpps --count 10000
  [ $code -eq 0 ] || die "$1: the senders: $code"
  arrive "$3" $((before + 10000)) "of 10000"
  stop got "$receiver" INT
  holds got 'got["packets"] - got["unstamped"] == 10000 and got["lost"] == got["reordered"] == got["duplicated"] == 0'
}

# several NAME FROM TO A B ARGUMENTS...: forwards both ways by four queues of each end, and loses nothing.
several() {
  forward "${@:4}" --queues 4 --when-full wait
  case $4 in tap:*) tap_host $a "$2" 1 && tap_host $c "$3" 2 ;; esac
  iperf "$1, 4 queues, 8 streams, both ways" 10.9.0.2 -P 8 --bidir
  many_flows "$1, 4 queues" "$2" "$3"
  file "$1, 4 queues"
  forwarded
  # 16 flows in one of four queues by chance: not within the life of this suite.
  holds forward 'len(forward["directions"]) == 2 and all(len(one["queues"]) == 4 for one in forward["directions"])
    and sum(queue["sent"] > 0 for queue in forward["directions"][0]["queues"]) > 1'
}

# by_one: forwards both ways by one device at each end, which receives from all queues and sends by the first.
by_one() {
  forward xdp:fa xdp:fb --when-full wait --frames 32768
  iperf "xdp, 4 queues by one device, 8 streams, both ways" 10.9.0.2 -P 8 --bidir
  many_flows "xdp, 4 queues by one device" ha hb
  file "xdp, 4 queues by one device"
  forwarded
  holds forward 'all(len(one["queues"]) == 1 and one["received_packets"] > 0 for one in forward["directions"])'
}

queues_gone() { # KIND: an interface of several queues goes away
  local load
  forward "$1:fa" "$1:fb" --queues 4
  load_to hb
  down_and_up "the link of several queues is back"
  made_again "$1" "$several_queues"
  forwarded
  no_load
  echo "$1, 4 queues: a link down and up again, or deleted and made again: on it goes"
}

# one_rate SENDERS: four queues, through which as many flows go, share --rate. In three seconds, however the machine pauses, it is not
# exceeded by 2 %, of which their bursts would be a third; a forwarder that stands passes no 500 packets.
one_rate() {
  local load began bytes ns
  forward packet:fa packet:fb --queues 4 --rate 100mbit
  there=(ip netns exec $a)
  start load "" "$wharf" send --to packet:ha --size 1000 --senders "$1" --rate 200mbit --seconds 60 --json
  load=$pid there=(ip netns exec $b)
  flows $c hb 1000
  began=$(date +%s%N) bytes=$(link_statistic $c hb rx_bytes)
  sleep 3
  bytes=$(($(link_statistic $c hb rx_bytes) - bytes)) ns=$(($(date +%s%N) - began))
  stop load "$load" INT
  forwarded
  echo "packet, 4 queues, $1 flows: $((bytes * 8000 / ns)) Mbit/s through --rate 100mbit"
  [ $((bytes * 80000 / ns)) -le 1020 ] || die "4 queues together exceed their rate"
  [ "$bytes" -ge 500000 ] || die "4 queues pass $bytes bytes in three seconds"
}

into_one() { # frames of four queues meet in a capture
  forward packet:fa "pcap:$out/one.pcap" --queues 4
  to=packet:ha
  send flows --senders 16 --size 200 --rate 20kpps --count 20000
  soon has_bytes "$out/one.pcap" $((20000 * 216)) || die "not all 20000 frames"
  forwarded
  in_a "$wharf" receive --from "pcap:$out/one.pcap" --json >"$out/one.json" 2>"$out/one.err" || die "reading a capture"
  holds one forward 'one["packets"] - one["unstamped"] == 20000 and one["lost"] == one["reordered"] == one["duplicated"] == 0
    and len(forward["directions"][0]["queues"]) == 1'
  echo "packet, 4 queues, into a capture: each flow whole and in order"
}

# from_one: a TAP of several queues, and a driver of one over a device of another process.
from_one() {
  start device "forwarding" "$wharf" forward --json "vhost-user:$out/one.sock" tap:ta --when-full wait
  local device=$pid
  forward "virtio-user:$out/one.sock,queues=1" tap:tb --queues 4 --when-full wait
  tap_host $a ta 1
  tap_host $c tb 2
  iperf "virtio-user to 4 queues of a TAP, 8 streams, both ways" 10.9.0.2 -P 8 --bidir
  many_flows "virtio-user to 4 queues of a TAP" ta tb
  forwarded
  holds forward '[len(one["queues"]) for one in forward["directions"]] == [4, 1]
    and sum(queue["sent"] > 0 for queue in forward["directions"][0]["queues"]) > 1'
  stop device "$device" INT
  [ $code -eq 0 ] || die "vhost-user: exit code $code"
}

several_queues="numtxqueues 4 numrxqueues 4"

queues() {
  ip -n $a link del ha && ip -n $c link del hb || die "interfaces stay"
  host $a ha fa 1 "$several_queues"
  host $c hb fb 2 "$several_queues"
  several packet ha hb packet:fa packet:fb
  # All 10000 frames find room while the forwarder stands still.
  several xdp ha hb xdp:fa xdp:fb --frames 32768
  by_one
  one_rate 1
  one_rate 16
  queues_gone packet
  queues_gone xdp
  into_one
  ip -n $a addr flush dev ha
  ip -n $c addr flush dev hb
  several tap ta tb tap:ta tap:tb
  from_one
}
