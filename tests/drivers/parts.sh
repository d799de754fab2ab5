# The parts of tests/drivers.sh, each on the guest that is running, with adapters of kind $kind.
# shellcheck shell=bash

# Frames of each of eight sizes; SIZES picks among these.
count=${COUNT:-100}
sizes=${SIZES:-"60 64 128 256 512 1024 1280 1514"}

# Long runs have rings and memory for what comes while a busy host lets the guest wait.
ring="" memory=""
[ "$count" -lt 1000 ] || ring=,ring=4096 memory="--frames 32768"

# pace RATE: prints --rate for numbered frames, for short runs with that rate, or without one. RATE is that of all. QEMU's e1000
# holds arrivals back for its first second, and then drops what its ring has no room for.
pace() {
  local rate=${RATE:-${1-}}
  [ -n "${RATE:-}" ] || [ "$count" -lt 1000 ] || { [ "$kind" = igb ] && rate=6kpps || rate=4kpps; }
  echo "${rate:+--rate $rate}"
}

# report NAME: brings the JSON and the messages of a run here.
report() {
  guest "cat /tmp/$1.json" && printf '%s' "$reply" >"$out/$1.json"
  guest "cat /tmp/$1.err" && printf '%s' "$reply" >"$out/$1.err"
}

# macs FROM TO: prints --mac for frames between two of the adapters, by their numbers.
macs() { echo "--mac 02:00:00:00:00:1$1,02:00:00:00:00:1$2"; }

# no_faults: the kernel has no complaint, the IOMMU's above all.
no_faults() {
  guest "dmesg | grep -E 'DMAR: .*(fault|DMA Read|DMA Write)|BUG|WARNING|Oops|Call Trace|hung'"
  [ -z "$reply" ] || die "$kind: the kernel complains: $reply"
}

# The adapter is taken from the kernel, unless its interface is in use, and opens.
bound() {
  guest "ip addr add 10.7.0.1/24 dev eth0; wharf admin bind $pci0 vfio" && die "$kind: an interface with an address was taken"
  [[ $reply = *"its interface eth0 has an address"* ]] || die "$kind: $reply"
  guest "ip route add default dev eth0; wharf admin bind $pci0 vfio" && die "$kind: an interface with the default route was taken"
  [[ $reply = *"its interface eth0 carries the default route"* ]] || die "$kind: $reply"
  guest "ip addr flush dev eth0; ip link add m0 link eth0 type macvlan" || die "no macvlan: $reply"
  guest "wharf admin bind $pci0 vfio" && die "$kind: an interface below another was taken"
  [[ $reply = *"its interface eth0 is below another interface"* ]] || die "$kind: $reply"
  guest "ip link del m0; ip netns add x; ip link set eth0 netns x; wharf admin bind $pci0 vfio" && die "$kind: another namespace's was taken"
  [[ $reply = *"no interface of it is here"* ]] || die "$kind: $reply"
  guest "ip -n x link set eth0 netns 1; ip netns del x; wharf admin bind 0000:00:00.0 vfio" && die "$kind: the host's bridge was taken"
  [[ $reply = *"no network adapter, by its class 06"* ]] || die "$kind: $reply"
  guest "wharf send --to $kind:$pci0 --size 60 --count 1" && die "$kind: the kernel's adapter was opened"
  [[ $reply = *"wharf admin bind $pci0 vfio"* ]] || die "$kind: $reply"
  guest "wharf admin bind $pci0 vfio && wharf admin bind $pci0 vfio && readlink /sys/bus/pci/devices/$pci0/driver" || die "$kind: $reply"
  [[ $reply = *vfio-pci* ]] || die "$kind: $reply"
  guest "wharf doctor $kind:$pci0 --probe --json >/tmp/doctor.json 2>/tmp/doctor.err" || { report doctor; die "$kind: the doctor refuses it"; }
  echo "$kind: taken from the kernel, and examined"
}

# redirect SPACE FROM TO: the kernel sends by TO what it receives by FROM, of any address. An emulated e1000 receives nothing
# for a second after it was set up.
redirect() {
  guest "ip -n $1 link set $2 promisc on; tc -n $1 qdisc add dev $2 ingress" || die "$kind: nothing is redirected: $reply"
  guest "tc -n $1 filter add dev $2 parent ffff: protocol all u32 match u32 0 0 \
    action mirred egress redirect dev $3; sleep 2" || die "$kind: nothing is redirected: $reply"
}

# Numbered frames go to the kernel's driver and come back, every byte and the order checked.
echoed() {
  local size
  redirect l eth2 eth2
  for size in $sizes; do
    guest "LIMIT=$patience run echo - wharf send --to $kind:$pci0$ring $memory --echo --size $size --count $count $(pace) $(macs 2 0) --json" || { report echo; die "$kind: echo of $size bytes"; }
    report echo
    holds echo 'echo["sent"] == echo["packets"] == '"$count"' and echo["drops"]["total"] == 0 and echo["pool"]["out"] == 0'
  done
  guest "tc -n l qdisc del dev eth2 ingress"
  echo "$kind: $count frames of each of $(wc -w <<<"$sizes") sizes to the kernel's driver and back, every byte the same, in order"
}

# Numbered frames go from the kernel's driver behind one wire by both adapters to that behind the other, and come back. RATE is
# theirs: an emulated e1000 drops what comes while its ring has no buffer. The program that numbers them is behind a veth pair,
# since the mode of an adapter that it opens would change.
crossed() {
  local size
  guest "ip -n l link add v0 type veth peer name v1 && ip -n l link set v0 up && ip -n l link set v1 up" || die "$kind: no veth: $reply"
  redirect l v1 eth2
  redirect l eth2 v1
  redirect r eth3 eth3
  guest "wharf admin bind $pci1 vfio && begin forward 'wharf: forwarding' - wharf forward $kind:$pci0$ring $kind:$pci1$ring $memory --json && sleep 1.5" ||
    { report forward; die "$kind: no forwarder: $reply"; }
  for size in $sizes; do
    guest "in_space l wharf send --to xdp:v0$ring $memory --echo --size $size --count $count $(pace 2kpps) $(macs 2 3) --json >/tmp/echo.json 2>/tmp/echo.err" ||
      { report echo; die "$kind: echo of $size bytes behind both adapters"; }
    report echo
    holds echo 'echo["sent"] == echo["received"]["packets"] == '"$count"' and echo["received"]["errors"] == 0'
  done
  guest "finish forward TERM" || { report forward; die "$kind: forward: $reply"; }
  guest "ip -n l link del v0; tc -n l qdisc del dev eth2 ingress; tc -n r qdisc del dev eth3 ingress; wharf admin bind $pci1 kernel" || die "$kind: $reply"
  report forward
  holds forward 'all(one["pool"]["out"] == 0 and one["packets"] == '"$((count * $(wc -w <<<"$sizes")))"' for one in forward["directions"])'
  echo "$kind: $count frames of each of $(wc -w <<<"$sizes") sizes from the kernel's driver by both adapters to the kernel's driver and back, every byte the same, in order"
}

# Numbered frames go to another Wharf at the far end of the wire, by that one's second adapter to the kernel's driver, and come back.
faced() {
  local size at
  for at in "l 2" "r 3"; do
    guest "ip -n ${at% *} link set eth${at#* } netns 1" || die "$kind: $reply"
  done
  # An adapter that was given back has the first name that is free.
  guest "i=\$(ls /sys/bus/pci/devices/$pci1/net) && { [ \$i = eth1 ] || ip link set \$i name eth1; }" || die "$kind: no eth1: $reply"
  guest "wharf admin bind $pci2 vfio && wharf admin bind $pci3 vfio && ip link set eth1 netns l && ip -n l link set eth1 up && in_space l ethtool -G eth1 rx 4096" || die "$kind: $reply"
  redirect l eth1 eth1
  guest "begin forward 'wharf: forwarding' - wharf forward $kind:$pci2$ring $kind:$pci3$ring $memory --json && sleep 1.5" ||
    { report forward; die "$kind: no forwarder: $reply"; }
  for size in $sizes; do
    guest "LIMIT=$patience run echo - wharf send --to $kind:$pci0$ring $memory --echo --size $size --count $count $(pace 2kpps) $(macs 2 0) --json" ||
      { guest "finish forward TERM"; report forward; report echo; die "$kind: echo of $size bytes behind another Wharf"; }
    report echo
    holds echo 'echo["sent"] == echo["received"]["packets"] == '"$count"' and echo["received"]["errors"] == 0'
  done
  guest "finish forward TERM" || { report forward; die "$kind: forward: $reply"; }
  report forward
  holds forward 'all(one["pool"]["out"] == 0 and one["packets"] == '"$((count * $(wc -w <<<"$sizes")))"' for one in forward["directions"])'
  guest "tc -n l qdisc del dev eth1 ingress; ip -n l link set eth1 promisc off netns 1; ip link set eth1 up"
  for at in "l 2 $pci2" "r 3 $pci3"; do
    # shellcheck disable=SC2086
    set -- $at
    guest "wharf admin bind $3 kernel && i=\$(ls /sys/bus/pci/devices/$3/net) && { [ \$i = eth$2 ] || ip link set \$i name eth$2; } && \
      ip link set eth$2 netns $1 && ip -n $1 link set eth$2 up && in_space $1 ethtool -G eth$2 rx 4096" || die "$kind: $reply"
  done
  guest "carrier eth1; sleep 2"
  echo "$kind: $count frames of each of $(wc -w <<<"$sizes") sizes to another Wharf, which has the kernel's driver behind it, and back, every byte the same, in order"
}

# Four queues each way: the first adapter's hash spreads what arrives, and each flow leaves by one queue of the second, in order.
# Every sender is one flow.
spread() {
  local from to
  [ "$kind" = igb ] || { echo "$kind: has one queue"; return; }
  guest "wharf admin bind $pci1 vfio && begin forward 'wharf: forwarding' - wharf forward $kind:$pci0 $kind:$pci1 --queues 4 --json && sleep 1.5" ||
    { report forward; die "$kind: no forwarder by four queues: $reply"; }
  for from in l r; do
    [ $from = l ] && to=r || to=l
    guest "begin got 'listening on' $to wharf receive --from packet:eth$([ $to = l ] && echo 2 || echo 3) --json" || { report got; die "$kind: no receiver"; }
    guest "in_space $from wharf send --to packet:eth$([ $from = l ] && echo 2 || echo 3) --senders 32 --size 200 --rate 500pps --count 2000 --json >/tmp/sent.json 2>/tmp/sent.err; sleep 1; finish got TERM"
    report sent && report got
    holds sent got 'sent["sent"] == got["generated"]["packets"] == 2000 and got["lost"] == got["reordered"] == got["duplicated"] == 0 and len(got["streams"]) == 32'
  done
  guest "finish forward TERM; wharf admin bind $pci1 kernel" || { report forward; die "$kind: forward: $reply"; }
  report forward
  holds forward 'all(one["pool"]["out"] == 0 and len(one["queues"]) == 4 and all(queue["sent"] > 50 for queue in one["queues"]) for one in forward["directions"])'
  echo "$kind: 2000 frames of 32 flows each way by four queues, all there, each flow in order; by queue: $(python3 -c '
import json, sys
for one in json.load(open(sys.argv[1]))["directions"]: print([queue["sent"] for queue in one["queues"]], end=" ")' "$out/forward.json")"
}

# Frames with a tag, and long ones, which arrive in several buffers: an emulated e1000 drops those that come in a burst.
unusual() {
  redirect l eth2 eth2
  guest "run echo - wharf send --to $kind:$pci0 --echo --size 600 --vlan 5 --count $count $(macs 2 0) --json" || { report echo; die "$kind: echo of tagged frames"; }
  report echo
  holds echo 'echo["sent"] == echo["packets"] == '"$count"' and echo["drops"]["total"] == 0 and echo["pool"]["out"] == 0'
  guest "ip -n l link set eth2 mtu 9000; sleep 2; run echo - wharf send --to $kind:$pci0,mtu=9000 --echo --size 9014 --rate 100pps --count 200 $(macs 2 0) --json" || { report echo; die "$kind: echo of long frames"; }
  report echo
  holds echo 'echo["sent"] == echo["packets"] == 200 and echo["drops"]["total"] == 0 and echo["pool"]["out"] == 0'
  guest "ip -n l link set eth2 mtu 1500; tc -n l qdisc del dev eth2 ingress"
  echo "$kind: $count tagged frames and 200 of 9014 bytes to the kernel's driver and back, every byte the same"
}

# iperf NAME SPACE ARGUMENTS...: prints the Mbit/s that arrived.
iperf() {
  local name=$1 space=$2
  shift 2
  guest "run $name $space iperf3 --json -c $*" || die "iperf3: $(report "$name"; head -c 300 "$out/$name.json")"
  report "$name"
  python3 -c 'import json, sys
print(round(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] / 1e6, 1))' "$out/$name.json"
}

# The comparison of 2007 over the adapter: batching off, on, and on when the queue wakes; and driver errors.
compared() {
  guest "wharf lab run batching --world host --to $kind:$pci0 --threads 4 --seconds 1 --set rounds=1 --json >/tmp/lab.json 2>/tmp/lab.err" || { report lab; die "$kind: lab run batching"; }
  report lab
  python3 -c '
import json, sys
value = {(row["label"].split("=")[-1], row["metric"]): row["value"] for row in json.load(open(sys.argv[1]))["rows"]}
modes, sharing = ("off", "on", "woken", "on+errors"), "packets_per_doorbell"
assert all(value[mode, "mpps"] > 0 for mode in modes), value
assert value["off", sharing] < 1.1 and value["on", sharing] > 4, value
assert value["on+errors", "failed"] > 0 == value["on", "failed"], value
print("batching compared over it, packets of a doorbell, of an interrupt, and for a processor second of off:",
    "; ".join("%s %.3g, %.3g, %.3g" % (mode, value[mode, sharing], value.get((mode, "packets_per_interrupt"), 0),
        value.get((mode, "packets_per_cpu_second_of_off"), 1)) for mode in modes))' "$out/lab.json" >"$out/lab.txt" || die "$kind: batching"
  echo "$kind: $(cat "$out/lab.txt")"
}

# TCP between the kernel behind the adapter's wire and a kernel behind a TAP.
forwarded() {
  local there back
  guest "begin forward 'wharf: forwarding' - wharf forward $kind:$pci0 tap:t0 --json" || { report forward; die "$kind: no forwarder"; }
  guest "ip netns add t; ip link set t0 netns t; ip -n t addr add 10.9.0.1/24 dev t0; ip -n t link set t0 up" || die "no namespace: $reply"
  # Emulated adapters of this family receive nothing for a second after they are set up.
  guest "ip -n l addr add 10.9.0.2/24 dev eth2; sleep 1; begin server listening l iperf3 -s --forceflush" || die "no server: $reply"
  there=$(iperf there t 10.9.0.2 -t 1) || die "$there"
  back=$(iperf back t 10.9.0.2 -t 1 -R) || die "$back"
  guest "finish server TERM; finish forward TERM" || { report forward; die "$kind: forward: $reply"; }
  guest "ip -n l addr flush dev eth2; ip netns del t"
  report forward
  # What the TAP's kernel leaves in super-packets the adapter segments: more frames arrive than were handed to it.
  holds forward 'all(one["pool"]["out"] == 0 and one["packets"] > 0 for one in forward["directions"])
    and all(one["bytes"] > 3000 * one["packets"] for one in forward["directions"] if "'$kind'" in one["device"])'
  echo "$kind: forwards to a TAP and back: iperf3 has $there and $back Mbit/s"
}

# under_traffic NAME: starts a receiver and a sender, and waits until frames pass.
under_traffic() {
  guest "begin got 'listening on' l wharf receive --from packet:eth2 --json" || die "no receiver"
  guest "begin sent 'until a signal' - wharf send --to $kind:$pci0 --size 200 --rate 500pps $(macs 0 2) --json; sleep 2" || { report sent; die "$1: no sender"; }
}

# ended_well NAME: ends both, and checks that no frame of memory is lost and none came twice.
ended_well() {
  local code
  guest "finish sent TERM"
  code=$?
  guest "sleep 0.3; finish got TERM"
  report sent && report got
  [ $code -eq 0 ] || [ "$(grep -vc 'until a signal' "$out/sent.err")" -ge 1 ] || die "$kind: $1: no reason"
  holds sent got 'sent["pool"]["out"] == got["pool"]["out"] == 0 and got["packets"] > 500 and got["reordered"] == got["duplicated"] == 0'
  echo "$kind: $1 under traffic: $(python3 -c '
import json, sys
sent, got = (json.load(open(sys.argv[1] + name)) for name in ("/sent.json", "/got.json"))
print("%d taken, %d sent, %d arrived, %s" % (sent["packets"], sent["sent"], got["packets"], sent["drops"]["by_reason"] or "no drops"))' "$out")"
}

link_down() {
  under_traffic "link down"
  qmp set_link name=nic0 up=false
  sleep 2
  qmp set_link name=nic0 up=true
  guest "sleep 4"
  ended_well "link down and up"
  holds sent 'set(sent["drops"]["by_reason"]) <= {"link-down"} and sent["drops"]["total"] > 100'
}

# After SIGKILL under traffic the adapter is opened again, and works.
killed() {
  under_traffic "killed"
  guest "kill -9 \$(cat /tmp/sent.pid); wait \$(cat /tmp/sent.pid); finish got TERM"
  PARTS="" count=50 echoed
  echo "$kind: killed under traffic, and opened again"
}

# The adapter is taken out of the machine under traffic. The sender waits for it; another one is put in.
removed() {
  under_traffic "removed"
  qmp device_del id=nic0
  guest "for i in \$(seq 100); do [ -e /sys/bus/pci/devices/$pci0 ] || break; sleep 0.2; done; ls /sys/bus/pci/devices/$pci0" && die "$kind: it stays: $reply"
  guest "finish sent TERM"
  guest "sleep 0.3; finish got TERM"
  report sent && report got
  holds sent got 'sent["pool"]["out"] == 0 and got["packets"] > 500 and got["lost"] == 0'
  grep -q "$pci0: the adapter is to be removed" "$out/sent.err" || die "$kind: no reason: $(cat "$out/sent.err")"
  qmp device_add driver="$model" bus=p0 id=nic0 netdev=n0 mac=02:00:00:00:00:10 romfile=
  guest "for i in \$(seq 100); do [ -e /sys/bus/pci/devices/$pci0 ] && break; sleep 0.2; done; sleep 1; wharf admin bind $pci0 vfio" || die "$kind: not put back: $reply"
  echo "$kind: taken out of the machine under traffic, and put back"
}

# The machine is reset while the adapter reads and writes memory, and the guest starts again.
machine_reset() {
  under_traffic "machine reset"
  qmp set-action reboot=reset
  qmp system_reset
  answer =ready
  qmp set-action reboot=shutdown
  find_adapters
  guest "wharf admin bind $pci0 vfio" || die "$kind: not taken after a reset: $reply"
  PARTS="" count=50 echoed
  echo "$kind: the machine reset under traffic, and the adapter opened again"
}

# The kernel's driver has the adapter again, and works.
given_back() {
  guest "wharf admin bind $pci0 kernel" || die "$kind: $reply"
  # An adapter that was taken out has another name.
  guest "i=\$(ls /sys/bus/pci/devices/$pci0/net) && ip link set \$i up && ip addr add 10.6.0.1/24 dev \$i && ip -n l addr add 10.6.0.2/24 dev eth2 && carrier \$i"
  guest "ping -c 5 -A -W 2 10.6.0.2" || die "$kind: the kernel's driver: $reply"
  echo "$kind: given back, and the kernel's driver works"
}
