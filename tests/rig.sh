# Functions that the suites and benchmarks over network namespaces share; sourced from the repository's root by bash. The caller
# makes namespaces and interfaces by `space` and `pair`, and sets `to`, the device that `send` sends to.
# shellcheck shell=bash
# WHARF names a binary to test in place of this tree's, PROFILE another profile than `release`, and `needs` what tests/build.sh is to add.
profile=${PROFILE:-release}
[ -n "${WHARF:-}" ] || built=$(tests/build.sh "${needs[@]}") || exit 1
wharf=${WHARF:-$built/wharf}
sample=data/sample.pcap
out=$(mktemp -d) || exit 1
# Names of this run's own: namespaces are the whole machine's.
a=wharf-a-$$ b=wharf-b-$$ c=wharf-c-$$
# `in_a` and `start` run their commands here.
here=(ip netns exec $a) there=(ip netns exec $b)

cleanup() {
  trap - EXIT INT TERM
  # What has ended is no job any more: its number may be another process's.
  for pid in $(jobs -rp); do kill -9 "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in $a $b $c; do ip netns del "$space" 2>/dev/null || true; done
  rm -rf "$out"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
  echo "FAILED: $*"
  for file in "$out"/*.err "$out"/*.json; do [ -s "$file" ] && echo "-- ${file##*/}" && head -c 900 "$file"; done
  exit 1
}

# space NAME: makes a namespace in which the kernel sends nothing by itself.
space() {
  ip netns add "$1" || die "no namespace"
  # shellcheck disable=SC2016
  ip netns exec "$1" sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done' 2>/dev/null || true
}

# pair SPACE NAME SPACE NAME: makes a veth pair and sets it up.
pair() {
  ip -n "$1" link add "$2" type veth peer name "$4" netns "$3" || die "no veth pair"
  ip -n "$1" link set "$2" arp off up && ip -n "$3" link set "$4" arp off up || die "interfaces stay down"
}

# slow_wire SPACE NAME RATE: packets that arrive at that end of a pair first pass an ifb at that rate. The sender's buffers come
# back only then. A receiver on `behind`, in the same space, sees packets that have passed (on NAME it sees them before).
# False, with the reason in $missing, if the kernel lacks a module.
slow_wire() {
  missing=""
  ip -n "$1" link add ifb0 type ifb 2>/dev/null && ip -n "$1" link set ifb0 up || { missing="no ifb"; return 1; }
  tc -n "$1" qdisc add dev ifb0 root tbf rate "$3" burst 4k limit 8m 2>/dev/null || { missing="no tbf"; return 1; }
  tc -n "$1" qdisc add dev "$2" ingress && tc -n "$1" filter add dev "$2" parent ffff: protocol all u32 match u32 0 0 \
    action mirred egress redirect dev ifb0 || die "no redirection"
  ip -n "$1" link add behind link "$2" type macvlan 2>/dev/null || { missing="no macvlan"; return 1; }
  ip -n "$1" link set behind address 02:00:00:00:00:02 arp off up || die "no interface behind the slow wire"
}

# soon COMMAND...: waits until it succeeds; false if it has not within a minute.
soon() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.05
  done
}

# link_statistic SPACE INTERFACE NAME: prints it, or 0 while there is no such interface.
link_statistic() { ip netns exec "$1" cat "/sys/class/net/$2/statistics/$3" 2>/dev/null || echo 0; }
counts() { [ "$(link_statistic "$1" "$2" "$3")" -ge "$4" ]; } # SPACE INTERFACE NAME LEAST
has_bytes() { [ "$(stat -c %s "$1")" -ge "$2" ]; }       # FILE LEAST

# flows SPACE INTERFACE [COUNT]: waits until so many packets more, else 100, have arrived there.
flows() {
  soon counts "$1" "$2" rx_packets $(($(link_statistic "$1" "$2" rx_packets) + ${3:-100})) || die "nothing arrives at $2"
}

within() { timeout -k 5 "$@"; }
in_a() { within 40 "${here[@]}" "$@"; }

is_gone() { ! kill -0 "$1" 2>/dev/null; } # PID
is_ready() { is_gone "$pid" || grep -q "$2" "$out/$1.err"; } # NAME LINE: true as well once it has ended

# start NAME 'LINE WHEN READY, OR NOTHING' COMMAND...: starts it in namespace b, in the background, process $pid.
start() {
  local name=$1 ready=$2
  shift 2
  : >"$out/$name.err"
  "${there[@]}" "$@" >"$out/$name.json" 2>"$out/$name.err" &
  pid=$!
  [ -n "$ready" ] || return
  soon is_ready "$name" "$ready" && grep -q "$ready" "$out/$name.err" || die "$name does not start"
}

# receive NAME FROM ARGUMENTS...
receive() {
  local name=$1 from=$2
  shift 2
  start "$name" "listening on" "$wharf" receive --from "$from" --json "$@"
}

# ended NAME PID: waits up to a minute for its end; the exit code is $code.
ended() {
  soon is_gone "$2" || die "$1 hangs"
  wait "$2"
  code=$?
}

stop() { # NAME PID SIGNAL: asks for the end
  kill "-$3" "$2" 2>/dev/null
  ended "$1" "$2"
}

send() { # NAME ARGUMENTS...: sends to $to for up to 40 s; the exit code is $code
  local name=$1
  shift
  in_a "$wharf" send --to "$to" --json "$@" >"$out/$name.json" 2>"$out/$name.err"
  code=$?
}

# fits NAME... 'PYTHON CONDITION': true if the condition holds over the JSON of each name.
fits() {
  python3 - "$out" "$@" <<'P'
import json, sys
out, names, condition = sys.argv[1], sys.argv[2:-1], sys.argv[-1]
values = {name: json.load(open(f"{out}/{name}.json")) for name in names}
sys.exit(0 if eval(f"({condition})", {}, values) else 1)
P
}
holds() { fits "$@" || die "${*: -1}"; }

# errors NAME: standard error without the lines that a run prints while it goes on: that it listens or waits, that more comes than leaves,
# and that packets fail.
errors() { grep -vE 'listening on|: waiting [^:]*$|: (more comes than leaves|packets fail): |: (what comes leaves|packets leave) again, ' "$out/$1.err"; }

# one_line NAME 'TEXT': standard error has one such line, with TEXT.
one_line() {
  [ "$(errors "$1" | wc -l)" -eq 1 ] || die "$1: not one line"
  errors "$1" | grep -q "$2" || die "$1: does not say $2"
}

printed() { tcpdump -tnnexxr "$1" 2>/dev/null; }
frames() { printed "$1" | grep -c $'^[^\t]'; }
same() { cmp <(printed "$1") <(printed "$2") || die "$3: other frames than in $1"; }

# refused NAME 'TEXT' COMMAND...: the command ends with code 1, one line with TEXT, and no summary: nothing had begun.
refused() {
  local name=$1 says=$2
  shift 2
  in_a "$@" >"$out/$name.json" 2>"$out/$name.err"
  code=$?
  [ $code -eq 1 ] || die "$name: exit code $code"
  one_line "$name" "$says"
  [ ! -s "$out/$name.json" ] || die "$name: a summary of nothing"
}

# lost KIND 'PYTHON: LOST ON THE WAY' 'TEXT' SECONDS COMMAND...: runs a sender on vc (for SECONDS) and a receiver on vd, devices
# of KIND, and takes their interface away under traffic by COMMAND.
lost() {
  local kind=$1 missing=$2 says=$3 seconds=$4
  shift 4
  receive got "$kind:vd" --seconds 60 --on-gone fail
  local receiver=$pid
  in_a "$wharf" send --size 60 --rate 20kpps --seconds "$seconds" --on-gone fail --to "$kind:vc" --json >"$out/sent.json" 2>"$out/sent.err" &
  local sender=$!
  flows $b vd
  "$@"
  ended sender $sender
  [ $code -eq 1 ] || die "$says: the sender's exit code is $code"
  one_line sent "$says"
  ended receiver $receiver
  [ $code -eq 1 ] || die "$says: the receiver's exit code is $code"
  one_line got "$says"
  holds sent got '0 < got["packets"] <= sent["packets"] and sent["drops"]["total"] > 0
    and sent["pool"]["out"] == got["pool"]["out"] == 0 and got["lost"] == '"$missing"
}

# checked_datagrams CAPTURE: counts the datagrams to port 9 as $all, those with wrong checksums as $bad.
checked_datagrams() {
  tshark -r "$1" -o udp.check_checksum:TRUE -Y 'udp.dstport == 9' -T fields -e udp.checksum.status 2>/dev/null >"$out/statuses"
  all=$(wc -l <"$out/statuses") bad=$(grep -cx 0 "$out/statuses")
}

# kernels_datagrams FROM finished|unfinished: receives 200 datagrams of a socket in a and checks their checksums.
kernels_datagrams() {
  receive kernel "$1" --pcap "$out/kernel.pcap"
  in_a python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(200): s.sendto(bytes([n]) * (n + 1), ("10.9.0.2", 9))' || die "sending by a socket"
  stop kernel $pid INT
  checked_datagrams "$out/kernel.pcap"
  [ "$all" -eq 200 ] || die "$all of 200 datagrams"
  if [ "$2" = finished ]; then [ "$bad" -eq 0 ] || die "$bad bad checksums"; else [ "$bad" -ge 199 ] || die "only $bad unfinished"; fi
}
