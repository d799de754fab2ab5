#!/usr/bin/env bash
# `wharf forward` where the processor is the limit: what leaves goes through 6,000 filters at its other end, in the time of whoever
# transmits. A flood comes, and a ping beside it, ten a second. The discipline, not the receive ring, has to say what is lost. Prints
# a row for each pair of devices and size of packets: pings back, their delay, packets a second that leave, and where packets were
# lost. Needs root. Leaves nothing behind; every command has a time limit. Pings have to come back, fewer of them on a busy machine.
# PINGS=60 pings longer, KINDS="packet xdp" takes these devices, SIZES="60 1000" these packets, EXTRA="--bql off" these options,
# QDISC=prio this discipline. READER=sleepy RATE=20kpps: the forwarder is not the limit; what leaves is read behind a device that takes
# 10,000 packets a second of any length, and sleeps in between. QUIET=1, for a machine without other work, demands the delay as well.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
pings=${PINGS:-20} filters=${FILTERS:-6000} qdisc=${QDISC:-fq_codel} reader=${READER:-slow} flows=${FLOWS:-1} failed=0
read -ra kinds <<<"${KINDS:-packet xdp tap}"
read -ra sizes <<<"${SIZES:-60 1000}"
read -ra extra <<<"${EXTRA:-}"

# slow SPACE INTERFACE: gives it filters that match nothing.
slow() {
  tc -n "$1" qdisc add dev "$2" ingress || die "no ingress"
  python3 - "$2" "$filters" >"$out/filters" <<'P'
import sys
for n in range(int(sys.argv[2])):
    print(f"filter add dev {sys.argv[1]} parent ffff: protocol ip prio 1 u32 match ip src 203.0.{n >> 8}.{n & 255}/32 flowid :1")
P
  tc -n "$1" -batch "$out/filters" || die "no filters"
}

# sleepy SPACE INTERFACE: lets what arrives wait for its turn; it counts as 1500 bytes at least.
sleepy() {
  ip -n "$1" link add ifb0 type ifb && ip -n "$1" link set ifb0 up || die "no ifb"
  tc -n "$1" qdisc add dev ifb0 root tbf rate 120mbit burst 3k limit 8m mpu 1500 || die "no tbf"
  tc -n "$1" qdisc add dev "$2" ingress && tc -n "$1" filter add dev "$2" parent ffff: protocol all u32 match u32 0 0 \
    action mirred egress redirect dev ifb0 || die "no redirection"
}

# host SPACE INTERFACE NUMBER: gives an interface that is there its addresses.
host() {
  ip -n "$1" link set "$2" address "02:00:00:00:00:0$3" up && ip -n "$1" addr add "10.9.0.$3/24" dev "$2" || die "$2 stays down"
  ip -n "$1" neigh replace "10.9.0.$((3 - $3))" lladdr "02:00:00:00:00:0$((3 - $3))" dev "$2"
}

# end KIND SPACE INTERFACE NUMBER: makes one end before the forwarder starts; prints its specification.
end() {
  if [ "$1" != tap ]; then
    ip -n "$2" link add "$3" type veth peer name "f$3" netns $b || die "no veth pair"
    ip -n $b link set "f$3" up || die "f$3 stays down"
    host "$2" "$3" "$4"
    echo "$1:f$3"
  else
    echo "tap:$3"
  fi
}

# moved KIND SPACE INTERFACE NUMBER: moves a TAP that the forwarder has made to its host.
moved() {
  [ "$1" = tap ] || return 0
  ip -n $b link set "$3" netns "$2" || die "$3 stays"
  host "$2" "$3" "$4"
}

# pinged COUNT: pings c from a; prints the pings that came back, and the delay that half and 99 of 100 stay below, in ms.
pinged() {
  ip netns exec $a python3 - "$1" <<'P'
import os, select, socket, struct, sys, time
count, raw = int(sys.argv[1]), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xb8)
mark, sent, came, number = os.getpid() & 0xffff, {}, {}, 0
def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
began = time.monotonic()
while time.monotonic() < began + count / 10 + 1:
    if number < count and time.monotonic() >= began + number / 10:
        body = struct.pack("!HH", mark, number) + bytes(48)
        sent[number] = time.monotonic()
        raw.sendto(struct.pack("!BBH", 8, 0, summed(struct.pack("!HH", 0x0800, 0) + body)) + body, ("10.9.0.2", 0))
        number += 1
    if select.select([raw], [], [], 0.002)[0]:
        packet = raw.recv(2048)
        kind, (ident, at) = packet[20], struct.unpack("!HH", packet[24:28])
        if kind == 0 and ident == mark:
            came.setdefault(at, 1000 * (time.monotonic() - sent[at]))
delays = sorted(came.values()) or [float("inf")]
at = lambda part: delays[min(len(delays) - 1, int(part * len(delays)))]
print(len(came), f"{at(0.5):.1f}", f"{at(0.99):.1f}")
P
}

# ticks PID: prints the processor time of a process, in hundredths of a second.
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

# counted SPACE INTERFACE rx|tx: prints the packets counted there.
counted() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/$3_packets"; }

# read_there: prints the packets that the reader has read.
read_there() { if [ "$reader" = sleepy ]; then counted $c ifb0 tx; else counted $c hb rx; fi; }

row() { # FROM TO SIZE
  space $a && space $b && space $c
  local from to began came p50 p99 before after
  from=$(end "$1" $a ha 1) && to=$(end "$2" $c hb 2) || die "no ends"
  start forward "forwarding" "$wharf" forward --json "$from" "$to" --qdisc "$qdisc" "${extra[@]}"
  local forwarder=$pid
  moved "$1" $a ha 1
  moved "$2" $c hb 2
  "$reader" $c hb
  there=(ip netns exec $a)
  start flood "" timeout 60 "$wharf" send --to packet:ha --size "$3" --flows "$flows" ${RATE:+--rate "$RATE"} --src 10.9.0.1 --dst 10.9.0.2
  there=(ip netns exec $b)
  local flood=$pid
  until [ "$(counted $a ha tx)" -gt 10000 ]; do
    kill -0 $flood 2>/dev/null || die "$1 $2 $3: no flood"
    sleep 0.05
  done
  sleep 0.5
  before=$(read_there) began=$(ticks $forwarder)
  read -r came p50 p99 < <(pinged "$pings")
  after=$(read_there)
  local ticks=$(($(ticks $forwarder) - began))
  stop flood "$flood" TERM
  stop forward "$forwarder" INT
  [ $code -eq 0 ] || die "$1 $2 $3: exit code $code"
  python3 - "$out" "$1 to $2, $3 bytes" "$came" "$pings" "$p50" "$p99" $((after - before)) $ticks "${QUIET:-}" <<'P' || failed=1
import json, sys
out, name, came, pings, p50, p99, left, ticks, quiet = sys.argv[1:]
drops = json.load(open(f"{out}/forward.json"))["directions"][0]["drops"]["by_reason"]
lost = ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()))
print(f"{name}: {came} of {pings} pings, p50 {p50} ms, p99 {p99} ms; {int(left) / (int(pings) / 10 + 1):.0f} packets a second leave, {100 * int(left) / max(1, int(ticks)):.0f} a second of its processor; lost: {lost}", flush=True)
# A ring that is not emptied in time drops pings, on a machine with other work.
least = 58 / 60 if quiet else 0.8
sys.exit(0 if int(came) >= least * int(pings) and (not quiet or float(p99) <= 30) else 1)
P
  for space in $a $b $c; do ip netns del "$space"; done
}

for from in "${kinds[@]}"; do
  for to in "${kinds[@]}"; do
    for size in "${sizes[@]}"; do row "$from" "$to" "$size"; done
  done
done
exit $failed
