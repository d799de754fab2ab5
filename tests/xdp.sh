#!/usr/bin/env bash
# `xdp:` between two network namespaces: wharf against tcpdump, trafgen and the kernel's own sockets; queues that are free
# again however their user ended; interfaces that go away under traffic. Needs root. Leaves nothing behind; every command
# has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
needs=(-p wharf-bench --bin wharf-bench)
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

busy_polling() { # the receiver's own calls drive the driver
  # All find room in the memory that is posted, and 50 ms of them in the interface: the receiver may not run for as long.
  receive busy xdp:vb,busy-poll=20 --count 3000 --poll busy
  send replay --size 100 --count 3000 --rate 5kpps
  ended busy $pid
  [ $code -eq 0 ] || die "busy polling: exit code $code"
  holds busy 'busy["packets"] == 3000 and busy["drops"]["total"] == 0 and busy["pool"]["out"] == 0'
  refused unprivileged "busy-poll=0" setpriv --bounding-set=-net_admin "$wharf" receive --from xdp:va,busy-poll=20,promisc=off --seconds 5
  echo "busy polling: 3000 frames; one line without CAP_NET_ADMIN"
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

offloaded() { # datagrams of a host, whose checksums its kernel leaves unfinished: forwarded, and finished behind our sender
  space $c
  ip -n $c link add kc type veth peer name ka netns $a && ip -n $c link set kc up && ip -n $a link set ka up || die "no veth pair"
  ip -n $c addr add 10.9.0.3/24 dev kc && ip -n $c neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev kc
  start forward forwarding ip netns exec $a "$wharf" forward packet:ka xdp:va,csum=offload --json
  local forwarder=$pid
  start wire "listening on" tcpdump -i vb -B 32768 -c 200 -U -w "$out/wire.pcap" udp port 9
  local tcpdump=$pid
  within 20 ip netns exec $c python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(200): s.sendto(bytes([n]) * (n + 1), ("10.9.0.2", 9))' || die "sending by a socket"
  ended wire "$tcpdump"
  stop forward "$forwarder" INT
  checked_datagrams "$out/wire.pcap"
  [ "$all" -eq 200 ] && [ "$bad" -eq 0 ] || die "csum=offload: $bad bad checksums in $all of 200 datagrams"
  to=xdp:va,csum=off send wrong --size 60 --count 1
  [ $code -eq 2 ] && grep -q "takes fill or offload" "$out/wrong.err" || die "csum=off to send: exit code $code"
  to=xdp:va,csum=offload send alone --size 60 --count 10
  holds alone 'alone["mode"] == "copy, checksums by the kernel" and alone["sent"] == 10 and alone["mode_reason"] is not None'
  ip netns del $c
  echo "csum=offload: 200 datagrams of a host, all with right checksums by tshark"
}

stamped() { # ring delays that end with the kernel's stamps, and those that do not
  local way
  for way in on off; do
    in_a "$wharf" forward pcap:$sample "xdp:va,timestamps=$way" --json >"$out/stamps_$way.json" 2>"$out/stamps.err" || die "forward, timestamps=$way"
  done
  holds stamps_on 'all(one["ring_delays_stamped"] > 0 and one["ring_delay_ns"]["p50"] > 0 for one in stamps_on["directions"])'
  holds stamps_off 'all(one["ring_delays_stamped"] == 0 for one in stamps_off["directions"])'
  echo "timestamps=on: ring delays end with the kernel's stamps"
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

attached() { ip -n $b link show vb | grep -q xdp; }

# cut_off NAME FROM...: is refused by one line, and nothing is attached.
cut_off() {
  local name=$1
  shift
  within 20 "${there[@]}" "$@" >"$out/$name.out" 2>"$out/$name.err"
  code=$?
  [ $code -eq 2 ] || die "$*: exit code $code"
  one_line $name "this host receives nothing by vb .* the default route.*--take-host"
  attached && die "$*: a program is attached"
  return 0
}

# unharmed COMMAND...: runs it under pings of vb, one each 50 ms, of which none may be lost.
unharmed() {
  cat >"$out/ping.py" <<'P'
import select, signal, socket, struct, sys, time
asked, answered, over = 0, set(), []
signal.signal(signal.SIGINT, lambda *_: over.append(time.monotonic() + 5))
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
while not over or (len(answered) < asked and time.monotonic() < over[0]):
    if not over:
        s.sendto(struct.pack("!BBHHH", 8, 0, 0xffff - 0x0800 - 7 - asked, 7, asked), ("10.9.0.2", 0))
        asked += 1
    while select.select([s], [], [], 0.05)[0]:
        kind, _, _, of, number = struct.unpack("!BBHHH", s.recv(2048)[20:28])
        if (kind, of) == (0, 7): answered.add(number)
print(len(answered), "of", asked)
sys.exit(asked == 0 or len(answered) < asked)
P
  "${here[@]}" python3 "$out/ping.py" >"$out/pings" 2>&1 &
  local ping=$!
  soon counts $a va rx_packets $(($(link_statistic $a va rx_packets) + 1)) || die "no ping is answered"
  "$@"
  kill -INT $ping && wait $ping || die "$*: pings answered: $(cat "$out/pings")"
}

refused_ends() {
  cut_off route "$wharf" receive --from xdp:vb --seconds 5
  cut_off route "$wharf" receive --from "xdp:vb,helper=$out/none.sock" --seconds 5
  cut_off route "$wharf" forward null xdp:vb --seconds 5
  cut_off route "$wharf" bench device --from xdp:vb
  cut_off route "$wharf" send --to xdp:vb --echo --size 60 --count 9
  printf 'a = "xdp:vb"\nb = "null"\n' >"$out/host.toml"
  cut_off route "$wharf" forward --config "$out/host.toml" --seconds 5
  "${there[@]}" "$wharf" doctor xdp:vb --json >"$out/doctor.json" 2>"$out/doctor.err"
  holds doctor 'doctor["devices"][0]["directions"][-1]["verdict"] == "untried" and "--take-host" in doctor["devices"][0]["directions"][-1]["why"]'
}

taking() { # ARGUMENTS: it attaches, and ends
  # shellcheck disable=SC2086
  start taken "listening on\|forwarding" "$wharf" $1
  attached || die "$1: no program is attached"
  stop taken "$pid" INT
  [ $code -eq 0 ] || die "$1: exit code $code"
}

of_ports() { printf 'a = "vhost-user:%s"\nb = "vhost-user:%s"\nports = ["vhost-user:%s"%s]\n' "$out"/{1,2,3}.sock "${1:-}" >"$out/ports.toml"; }

not_plugged() { # PID
  kill -HUP "$1"
  soon grep -q "this host receives nothing by vb .* the default route.*--take-host.*; it is not plugged" "$out/switch.err" || die "what a reload says"
  attached && die "a reload plugs the host's interface"
  return 0
}

plugged() { # a reload plugs a port with the same care
  of_ports
  start switch "forwarding" "$wharf" forward --config "$out/ports.toml"
  local switch=$pid
  of_ports ', "xdp:vb"'
  unharmed not_plugged "$switch"
  echo "take-host = true" >>"$out/ports.toml"
  kill -HUP "$switch"
  soon attached || die "a reload with take-host plugs nothing"
  grep -q "takes a restart" "$out/switch.err" && die "take-host takes a restart"
  stop switch "$switch" INT
}

the_hosts_interface() { # one that the host depends on is taken when that was asked for, and then said
  ip -n $a addr add 10.9.0.1/24 dev va && ip -n $b addr add 10.9.0.2/24 dev vb || die "no addresses"
  ip -n $a neigh add 10.9.0.2 lladdr "$(ip netns exec $b cat /sys/class/net/vb/address)" dev va
  ip -n $b neigh add 10.9.0.1 lladdr "$(ip netns exec $a cat /sys/class/net/va/address)" dev vb
  receive address xdp:vb --seconds 0.2
  ended address "$pid"
  [ $code -eq 0 ] && grep -q "this host receives nothing by vb while it is open: vb has 10.9.0.2" "$out/address.err" ||
    die "an address: exit code $code"
  ip -n $b route add default via 10.9.0.1 dev vb || die "no default route"
  unharmed refused_ends
  printf 'take-host = true\n' >>"$out/host.toml"
  for taken in "receive --from xdp:vb --take-host" "forward --config $out/host.toml"; do
    taking "$taken"
    [ "$(grep -c "this host receives nothing" "$out/taken.err")" = 1 ] || die "$taken: what is said"
  done
  unharmed taking "receive --from xdp:vb,steer=udp:53"
  grep -q "this host" "$out/taken.err" && die "steer=: what is said"
  start sends "" "$wharf" send --to xdp:vb --size 60 --count 9 --json
  ended sends "$pid"
  [ $code -eq 0 ] && ! grep -q "this host" "$out/sends.err" || die "sending: exit code $code"
  "${there[@]}" "$wharf" doctor xdp:vb --for receive --take-host --json >"$out/doctor.json" 2>"$out/doctor.err" || die "doctor: exit code $?"
  holds doctor 'doctor["devices"][0]["directions"][0]["verdict"] == "works"'
  plugged
  ip -n $b route del default
  # One that marked packets alone take is a default route.
  ip -n $b route add default via 10.9.0.1 dev vb table 77 && ip -n $b rule add fwmark 5 table 77 || die "no rule"
  cut_off route "$wharf" receive --from xdp:vb --seconds 5
  ip -n $b rule del fwmark 5 && ip -n $b route flush table 77
  # A login by SSH, that of a shell above included; one of another host's, or of another namespace, is none by this interface.
  local login="10.9.0.9 50000 10.9.0.2 22"
  SSH_CONNECTION=$login within 20 "${there[@]}" sh -c "env -u SSH_CONNECTION '$wharf' receive --from xdp:vb --seconds 5; exit \$?" 2>"$out/login.err"
  code=$?
  [ $code -eq 2 ] && one_line login "this login (SSH from 10.9.0.9)" || die "a login: exit code $code"
  # So is a choice of flows that takes the login, or the host's address.
  for flows in tcp:22 ip:10.9.0.2 ip:0.0.0.0/1+ip:128.0.0.0/1; do
    SSH_CONNECTION=$login within 20 "${there[@]}" "$wharf" receive --from "xdp:vb,steer=$flows" --seconds 5 2>"$out/login.err"
    code=$?
    [ $code -eq 2 ] && one_line login "steer takes from this host, while it is open, this login" || die "steer=$flows: exit code $code"
  done
  SSH_CONNECTION=$login receive login xdp:vb,steer=tcp:22 --take-host --seconds 0.2
  ended login "$pid"
  [ $code -eq 0 ] && grep -q "steer takes from this host, while it is open, this login" "$out/login.err" || die "steer=tcp:22: exit code $code"
  SSH_CONNECTION="10.9.0.9 50000 10.8.0.2 22" receive login xdp:vb --seconds 0.2
  ended login "$pid"
  [ $code -eq 0 ] || die "a login elsewhere: exit code $code"
  ip -n $a addr flush dev va && ip -n $b addr flush dev vb
  echo "the host's interface: refused with the default route or the login, by a reload too, and taken with --take-host or steer=; no ping is lost unasked"
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
    flows $b vb
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

promiscuity() { ip -n $b -d link show "$1" | grep -o 'promiscuity [0-9]*'; }

several_queues() { # 1000 flows over four queues each way, to one receiver and to two
  local four="numtxqueues 4 numrxqueues 4"
  # shellcheck disable=SC2086
  ip -n $a link add vc $four type veth peer name vd $four netns $b || die "no veth pair of four queues"
  ip -n $a link set vc arp off up && ip -n $b link set vd arp off up || die "interfaces stay down"
  # All frames of a queue find room in the memory that is posted to it.
  receive every xdp:vd --frames 16384
  local receiver=$pid
  [ "$(promiscuity vd)" = "promiscuity 1" ] || die "the receiver's interface is not promiscuous"
  to=xdp:vc
  send flows --flows 1000 --senders 4 --queues 4 --size 60 --count 8000 --rate 10kpps
  [ $code -eq 0 ] || die "four queues: exit code $code"
  stop every "$receiver" INT
  holds flows every 'every["packets"] == flows["packets"] == 8000 and every["lost"] == every["duplicated"] == every["drops"]["total"] == 0
    and every["pool"]["out"] == 0 and all(queue["sent"] > 1000 for queue in flows["queues"])
    and [one["queue"] for one in every["rx_queues"]] == [0, 1, 2, 3] and [one["packets"] for one in every["rx_queues"]] == [one["sent"] for one in flows["queues"]]'
  # Two processes, of which the second finds the first one's program, and stays when that is killed.
  receive first xdp:vd,queue=0-1 --frames 16384
  local first=$pid
  receive second xdp:vd,queue=2-3 --frames 16384
  local second=$pid
  refused third "queue 2 is in use by another AF_XDP socket" "${there[@]}" "$wharf" receive --from xdp:vd,queue=2 --seconds 5
  refused other "has an XDP program already" "${there[@]}" "$wharf" receive --from xdp:vd,steer=udp:9,queue=3 --seconds 5
  refused least "takes CAP_SYS_ADMIN" "${there[@]}" setpriv --bounding-set=-sys_admin "$wharf" receive --from xdp:vd,queue=3 --seconds 5
  send flows --flows 1000 --senders 4 --queues 4 --size 60 --count 8000 --rate 10kpps
  kill -9 "$first" && wait "$first" 2>/dev/null
  send more --flows 1000 --senders 4 --queues 4 --size 60 --count 8000 --rate 10kpps
  stop second "$second" INT
  # Half of the flows each time: by the flow hash, no flow by two queues.
  holds flows more second 'second["packets"] == sum(queue["sent"] for run in (flows, more) for queue in run["queues"][2:])'
  [ -z "$(ip -n $b link show vd | grep -o 'xdp')" ] || die "a program is left"
  [ "$(promiscuity vd)" = "promiscuity 0" ] || die "an interface stays promiscuous"
  # 2 MiB of memory, which four devices share, may be locked once.
  start locked "forwarding" setpriv --bounding-set=-ipc_lock sh -c \
    "ulimit -l 3500 && exec '$wharf' forward xdp:vd pcap:$out/locked.pcap --queues 4 --frames 256 --json"
  # So little memory holds a quarter of a second at this rate: the forwarder may wait for a processor.
  send few --flows 100 --queues 4 --size 60 --count 500 --rate 1kpps
  soon has_bytes "$out/locked.pcap" $((24 + 500 * 76))
  stop locked "$pid" INT
  holds locked 'locked["directions"][0]["received_packets"] == 500'
  in_a setpriv --bounding-set=-all,+net_raw sh -c "ulimit -l 3500 && exec '$wharf' send --to xdp:vc --queues 4 --flows 100 --frames 1024 \
    --size 60 --count 1000 --json" >"$out/unlocked.json" 2>"$out/unlocked.err" || die "four queues that send lock memory four times"
  holds unlocked 'unlocked["sent"] == 1000 and unlocked["pool"]["out"] == 0'
  ip -n $a link del vc
  to=xdp:va
  echo "four queues, 1000 flows: one receiver has all; two processes have half each, and the second goes on when the first is killed"
}

steered() { # some flows are the receiver's, the host goes on with the rest
  ip -n $a addr add 10.9.0.1/24 dev va && ip -n $b addr add 10.9.0.2/24 dev vb
  local mac_a mac_b
  mac_a=$(ip netns exec $a cat /sys/class/net/va/address) mac_b=$(ip netns exec $b cat /sys/class/net/vb/address)
  ip -n $a neigh add 10.9.0.2 lladdr "$mac_b" dev va && ip -n $b neigh add 10.9.0.1 lladdr "$mac_a" dev vb
  start echo ready python3 tests/tcp_echo.py serve 4433
  local server=$pid
  start host "" python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 53)); s.settimeout(20)
print(sum(len(s.recv(2048)) == 100 for n in range(300)))'
  local host=$pid
  receive steered "xdp:vb,steer=udp:4433+tcp:9+ip:2001:db8::2"
  local receiver=$pid
  in_a python3 tests/tcp_echo.py check 10.9.0.2 4433 4000000 >"$out/tcp.err" || die "a connection of the host's"
  in_a python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(300):
    for port in 53, 4433: s.sendto(bytes(100), ("10.9.0.2", port))
    time.sleep(0.001)'
  send six --src 2001:db8::1 --vlan 7 --size 100 --count 500 --rate 10kpps
  send four --dst 10.9.0.2 --size 100 --count 500 --rate 10kpps
  ended host "$host"
  stop steered "$receiver" INT
  stop echo "$server" TERM
  [ "$(cat "$out/host.json")" = 300 ] || die "the host misses datagrams: $(cat "$out/host.json")"
  holds steered 'steered["packets"] == 800 and steered["unstamped"] == 300 and steered["drops"]["total"] == 0'
  ip -n $a addr flush dev va && ip -n $b addr flush dev vb
  echo "steer=: a TCP connection and datagrams of the host's go on beside 800 frames of the receiver's"
}

under_traffic() {
  pair $a vc $b vd
  lost xdp 'got["drops"]["total"]' "is down\|no carrier" 3 ip -n $b link set vd down
  ip -n $b link set vd up
  lost xdp 'got["drops"]["total"]' "gone" 60 ip -n $a link del vc
  space $c
  ip -n $b link add vd type veth peer name vx netns $c && ip -n $b link set vd arp off up && ip -n $c link set vx up
  start sent "" "$wharf" send --size 60 --rate 20kpps --seconds 60 --on-gone fail --to xdp:vd --json
  local sender=$pid
  flows $c vx
  ip netns del $c
  ended sender "$sender"
  [ $code -eq 1 ] || die "deleted namespace: the sender's exit code is $code"
  one_line sent "gone\|no carrier"
  holds sent 'sent["packets"] > 0 and sent["pool"]["out"] == 0'
  echo "an interface switched off, removed, or in a namespace that is deleted, under traffic: one line, exit code 1, summary"
}

against_tcpdump $sample
against_receive $sample
busy_polling
batching
from_others
from_the_kernel
offloaded
stamped
what_cannot_be
in_a_user_namespace
late_completions
killed
several_queues
steered
the_hosts_interface
under_traffic
