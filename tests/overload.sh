#!/usr/bin/env bash
# `wharf forward` where the processor is the limit: what leaves goes through 6,000 filters at its other end, in the time of whoever
# transmits. A flood comes, and a ping beside it, ten a second. The discipline, not the receive ring, has to say what is lost. Prints
# a row for each pair of devices and size of packets: pings back, their delay, packets a second that leave, how 8 flows share, and where
# packets were lost. Needs root. Leaves nothing behind; every command has a time limit. Pings have to come back, fewer of them on a busy
# machine, and 8 flows to share. QUIET=1, for a machine without other work, demands Jain 0.9, the delay, and with `prio` every ping as well.
# PINGS=60 pings longer, KINDS="packet xdp virtio" takes these devices (`virtio`: virtio-user to vhost-user of another process), SIZES="60
# 1000" these packets, FLOWS=64 these flows, EXTRA="--bql off" these options, QDISC=prio this discipline. The ping is EF; TOS=0 has it in the
# flood's class, PROBE=udp takes datagrams in its place. READER=sleepy RATE=20kpps: the forwarder is not the limit; what leaves is read
# behind a device that takes 10,000 packets a second of any length, and sleeps in between. WHARF_BEFORE=BINARY alternates with it, three times.
# Usage: tests/overload.sh [all], where `all` adds sparse flows beside 1, 8 and 64, `prio`, and the sleepy reader with and without a limit
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
pings=${PINGS:-20} filters=${FILTERS:-6000} qdisc=${QDISC:-fq_codel} reader=${READER:-slow} flows=${FLOWS:-1} rate=${RATE:-} failed=0
tos=${TOS:-0xb8} probe=${PROBE:-icmp} after=$wharf
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
  if [ "$1" = virtio ]; then
    end packet "$2" "$3" "$4" >/dev/null
    echo "virtio-user:$out/sock"
  elif [ "$1" != tap ]; then
    ip -n "$2" link add "$3" type veth peer name "f$3" netns $b || die "no veth pair"
    ip -n $b link set "f$3" up || die "f$3 stays down"
    host "$2" "$3" "$4"
    echo "$1:f$3"
  else
    echo "tap:$3"
  fi
}

# behind KIND INTERFACE: starts what a virtio-user end leads to, as process $device.
behind() {
  device=""
  [ "$1" = virtio ] || return 0
  start device "forwarding" "$wharf" forward --json "vhost-user:$out/sock" "packet:f$2" --when-full wait
  device=$pid
}

# moved KIND SPACE INTERFACE NUMBER: moves a TAP that the forwarder has made to its host.
moved() {
  [ "$1" = tap ] || return 0
  ip -n $b link set "$3" netns "$2" || die "$3 stays"
  host "$2" "$3" "$4"
}

# echoes: c sends datagrams to port 7 back, as process $echo.
echoes() {
  there=(ip netns exec $c)
  start echo "ready" python3 -c 'import socket, sys
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.bind(("10.9.0.2", 7))
print("ready", file=sys.stderr, flush=True)
while True: port.sendto(*port.recvfrom(2048))'
  echo=$pid
  there=(ip netns exec $b)
}

# pinged COUNT: pings c from a; prints the pings that came back, and the delay that half and 99 of 100 stay below, in ms.
pinged() {
  ip netns exec $a python3 - "$1" "$tos" "$probe" <<'P'
import os, select, socket, struct, sys, time
count, is_udp = int(sys.argv[1]), sys.argv[3] == "udp"
kind = (socket.SOCK_DGRAM, 0) if is_udp else (socket.SOCK_RAW, socket.IPPROTO_ICMP)
ends = socket.socket(socket.AF_INET, *kind)
ends.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[2], 0))
mark, sent, came, number = os.getpid() & 0xffff, {}, {}, 0
def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
began = time.monotonic()
while time.monotonic() < began + count / 10 + 1:
    if number < count and time.monotonic() >= began + number / 10:
        body = struct.pack("!HH", mark, number) + bytes(48)
        header = b"" if is_udp else struct.pack("!BBH", 8, 0, summed(struct.pack("!HH", 0x0800, 0) + body))
        sent[number] = time.monotonic()
        ends.sendto(header + body, ("10.9.0.2", 7 if is_udp else 0))
        number += 1
    if select.select([ends], [], [], 0.002)[0]:
        packet = ends.recv(2048)
        (ident, at), is_answer = struct.unpack("!HH", packet[:4] if is_udp else packet[24:28]), is_udp or packet[20] == 0
        if is_answer and ident == mark:
            came.setdefault(at, 1000 * (time.monotonic() - sent[at]))
delays = sorted(came.values()) or [float("inf")]
at = lambda part: delays[min(len(delays) - 1, int(part * len(delays)))]
print(len(came), f"{at(0.5):.1f}", f"{at(0.99):.1f}")
P
}

# shares: counts what arrives at hb by source port, one packet of 16, and prints Jain's index of the flows. Ends by a signal.
shares() {
  exec ip netns exec $c python3 -c 'import collections, ctypes, signal, socket, struct, sys
code = struct.pack("HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0xfffff000 + 56, 0x25, 1, 0, 0xffffffff >> 4, 6, 0, 0, 64, 6, 0, 0, 0)
lines, counts = ctypes.create_string_buffer(code), collections.Counter()
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
tap.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HP", 4, ctypes.addressof(lines)))
tap.bind(("hb", 0x0800))
def end(*_):
    few = [count for count in counts.values() if count > max(counts.values()) / 100]
    print(f"{sum(few) ** 2 / sum(count * count for count in few) / int(sys.argv[1]):.2f}" if few else 0)
    sys.exit()
signal.signal(signal.SIGTERM, end)
while True:
    packet = tap.recv(64)
    if packet[23] == 17: counts[packet[34:36]] += 1' "$flows"
}

# ticks PID: prints the processor time of a process, in hundredths of a second.
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

# counted SPACE INTERFACE rx|tx: prints the packets counted there.
counted() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/$3_packets"; }

# read_there: prints the packets that the reader has read.
read_there() { if [ "$reader" = sleepy ]; then counted $c ifb0 tx; else counted $c hb rx; fi; }

row() { # FROM TO SIZE
  space $a && space $b && space $c
  local from to began came p50 p99 before
  from=$(end "$1" $a ha 1) && to=$(end "$2" $c hb 2) || die "no ends"
  behind "$2" hb
  start forward "forwarding" "$wharf" forward --json "$from" "$to" --qdisc "$qdisc" "${extra[@]}"
  local forwarder=$pid
  moved "$1" $a ha 1
  moved "$2" $c hb 2
  "$reader" $c hb
  [ "$probe" = icmp ] || echoes
  there=(ip netns exec $a)
  start flood "" timeout 60 "$wharf" send --to packet:ha --size "$3" --flows "$flows" ${rate:+--rate "$rate"} --src 10.9.0.1 --dst 10.9.0.2
  there=(ip netns exec $b)
  local flood=$pid
  until [ "$(counted $a ha tx)" -gt 10000 ]; do
    kill -0 $flood 2>/dev/null || die "$1 $2 $3: no flood"
    sleep 0.05
  done
  sleep 0.5
  shares >"$out/shares" 2>&1 &
  local sharer=$!
  before=$(read_there) began=$(ticks $forwarder)
  read -r came p50 p99 < <(pinged "$pings")
  left=$(($(read_there) - before)) worst=$p99
  local ticks=$(($(ticks $forwarder) - began))
  kill -TERM $sharer && wait $sharer
  stop flood "$flood" TERM
  stop forward "$forwarder" INT
  [ $code -eq 0 ] || die "$1 $2 $3: exit code $code"
  [ -z "$device" ] || stop device "$device" INT
  [ "$probe" = icmp ] || kill "$echo"
  local name="$1 to $2, $3 bytes, $flows flows, $qdisc${extra[*]:+ ${extra[*]}}, $probe of TOS $tos"
  python3 - "$out" "$name" "$came" "$pings" "$p50" "$p99" $left $ticks "${QUIET:-}" "$flows" "$qdisc" "$(cat "$out/shares")" <<'P' || failed=1
import json, sys
out, name, came, pings, p50, p99, left, ticks, quiet, flows, qdisc, jain = sys.argv[1:]
drops = json.load(open(f"{out}/forward.json"))["directions"][0]["drops"]["by_reason"]
lost = ", ".join(f"{reason} {count}" for reason, count in sorted(drops.items()))
print(f"{name}: {came} of {pings} pings, p50 {p50} ms, p99 {p99} ms; {int(left) / (int(pings) / 10 + 1):.0f} packets a second leave, {100 * int(left) / max(1, int(ticks)):.0f} a second of its processor; Jain {jain}; lost: {lost}", flush=True)
# `prio` knows no flows; flows of which few packets leave differ by chance.
is_fair = flows != "8" or qdisc == "prio" or float(jain) >= (0.9 if quiet else 0.7)
# Without a limit the sleepy reader takes its time.
is_late = quiet and "--bql off" not in name and float(p99) > 30
# A ring that is not emptied in time drops pings, on a machine with other work.
least = (1 if qdisc == "prio" else 58 / 60) if quiet else 0.8
sys.exit(0 if int(came) >= least * int(pings) and is_fair and not is_late else 1)
P
  for space in $a $b $c; do ip netns del "$space"; done
}

# parts MOST LESS MORE: true if LESS is at least MOST hundredths of MORE.
parts() { [ $((100 * $2)) -ge $(($1 * $3)) ]; }

# row_beside FROM TO SIZE: a row, or three by each of two binaries, whose rates are compared.
row_beside() {
  [ -n "${WHARF_BEFORE:-}" ] || { row "$@"; return; }
  local old=0 new=0 round kept
  for round in 1 2 3; do
    # What the binary before does is no failure of this one.
    kept=$failed wharf=$WHARF_BEFORE && row "$@" && old=$((old + left))
    failed=$kept
    wharf=$after && row "$@" && new=$((new + left))
  done
  echo "$1 to $2, $3 bytes: $((100 * new / (old + 1))) of 100 packets leave that did before"
  parts 85 $new $old || [ -z "${QUIET:-}" ] || failed=1
}

rows() {
  local from to size
  for from in "${kinds[@]}"; do
    for to in "${kinds[@]}"; do
      [ "$from" = virtio ] || for size in "${sizes[@]}"; do row_beside "$from" "$to" "$size"; done
    done
  done
}

# sparse: pings and datagrams of the flood's own class.
sparse() {
  local tos=0 kind flows probe
  for kind in packet xdp tap virtio; do
    for flows in 1 8 64; do
      for probe in icmp udp; do row "${kind/virtio/packet}" "$kind" 60; done
    done
  done
}

# urgent: EF through `prio`.
urgent() {
  local qdisc=prio flows=8 kind
  for kind in packet xdp tap; do row $kind $kind 60; done
}

# asleep: the kernel's own test, with the limit and without.
asleep() {
  local reader=sleepy rate=20kpps kind extra=() without
  for kind in packet xdp; do
    extra=(--bql off)
    row $kind $kind 60
    without=("$worst" "$left") extra=()
    row $kind $kind 60
    # Without a ping there is no delay: `inf`.
    case ${without[0]}$worst in *inf*) failed=1 && continue ;; esac
    [ -z "${QUIET:-}" ] || { parts 98 "$left" "${without[1]}" && parts 1000 "${without[0]%.*}" "${worst%.*}"; } || failed=1
  done
}

rows
[ "${1:-}" != all ] || { sparse && urgent && asleep; }
exit $failed
