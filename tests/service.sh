#!/usr/bin/env bash
# `wharf forward --config` as a service: reloads under traffic, kill -9 and a new start, a hang, what a service manager hears, and the
# privileges of each thread; the unit by systemd-analyze, where that is there. Needs root. Leaves nothing behind; every command has a
# time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
space $a
space $b
space $c
pair $a va $b vb
pair $c vd $b vc
ip -n $b link set lo up
# Root finds the sockets of services there, as the unit has them.
folder=/run/wharf-test$$
config=$out/f.toml control=$folder/control.sock notify=$out/notify heard=$out/heard
mkdir -m 700 "$folder" && trap 'cleanup; rm -rf "$folder"' EXIT

# configure RATE: writes the file.
configure() {
  cat >"$config" <<END
a = "packet:vb"
b = "packet:vc"
rate = "$1"
qdisc = "fq_codel:limit=200"
json = true
control = "$control"
END
}

# The service manager's side: each message as a line of JSON.
python3 -c 'import json, socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
while True: print(json.dumps(manager.recv(4096).decode()), flush=True)' "$notify" >>"$heard" &
soon test -S "$notify" || die "no service manager"

# hears COUNT MESSAGE: waits until it has come so often.
hears() { soon has_heard "$@" || die "not $1 times $2: $(cat "$heard")"; }
has_heard() { [ "$(grep -c "^\"$2" "$heard")" -ge "$1" ]; }

# service NAME OPTIONS...: starts the forwarder as a service; its process is $forwarder.
service() {
  local name=$1
  shift
  start "$name" forwarding env NOTIFY_SOCKET="$notify" WATCHDOG_USEC=2000000 "$wharf" forward --config "$config" "$@"
  forwarder=$pid
}

# traffic RATE: from va, in the background, until `quiet`.
traffic() {
  ip netns exec $a "$wharf" send --to packet:va --size 1000 --rate "$1" --seconds 300 --json >"$out/sent.json" 2>"$out/sent.err" &
  sender=$!
}

quiet() {
  stop sender $sender INT
  [ $code -eq 0 ] || die "the sender fails"
}

# has_all: true once the forwarder has received all that was sent, but for what the kernel dropped in front of it.
has_all() {
  "$wharf" show "$control" --json >"$out/shown.json" && fits shown sent 'sent["sent"] == (path := shown["paths"][0])["received_packets"]
    + path["drops"].get("thinned", 0) + path["drops"].get("ring-full", 0)'
}

reloads() { # 100 of them, each with another rate, under traffic that is at times more than the rate
  configure 20mbit
  service forward
  start got "listening on" ip netns exec $c "$wharf" receive --from packet:vd --json
  local receiver=$pid rate
  hears 1 READY=1
  traffic 4kpps
  for n in $(seq 100); do
    rate=$((20 + n % 50))
    configure ${rate}mbit
    kill -HUP "$forwarder"
    for _ in $(seq 2000); do
      [ "$(grep -c 'read again' "$out/forward.err")" -ge "$n" ] && break
      sleep 0.01
    done
    grep 'read again' "$out/forward.err" | sed -n "${n}p" | grep -q "rate=${rate}mbit" || die "reload $n: $(tail -1 "$out/forward.err")"
  done
  hears 100 'RELOADING=1.nMONOTONIC_USEC='
  hears 101 READY=1
  configure 1gbit
  echo 'rates = 3' >>"$config"
  kill -HUP "$forwarder"
  hears 102 READY=1
  grep -q 'f.toml:7: "rates" is no key.*no setting changes' "$out/forward.err" || die "a mistake: $(tail -1 "$out/forward.err")"
  quiet
  soon has_all || die "not all that was sent arrives"
  stop forward "$forwarder" TERM
  [ $code -eq 0 ] || die "forward: exit code $code"
  stop got $receiver INT
  hears 1 STOPPING=1
  # No packet is lost but those that the discipline counts, and those that a busy machine's kernel drops in front of the forwarder, by itself
  # or for a flood; what the ends count is what arrived.
  holds forward sent got "[way['received_packets'] - way['sent'] - way['returned'] - sum(count for why, count in way['drops']['by_reason'].items()
      if why not in ('thinned', 'ring-full')) for way in forward['directions']] == [0, 0]
    and forward['directions'][0]['sent'] == got['packets']
    and set(forward['directions'][0]['drops']['by_reason']) <= {'overlimit', 'codel', 'qdisc-changed', 'thinned', 'ring-full'}
    and all(way['pool']['out'] == 0 for way in forward['directions']) and got['packets'] > 1000"
  echo "100 reloads under traffic: each rate is in force, and no packet is lost but those that the discipline counts"
}

killed() { # kill -9, and a new start with all that was left
  : >"$heard"
  configure 50mbit
  service first
  hears 1 READY=1
  traffic 2kpps
  flows $c vd
  kill -9 "$forwarder"
  wait "$forwarder" 2>/dev/null
  service second
  hears 2 READY=1
  within 10 "$wharf" show >"$out/show.err" && grep -q "^ *$forwarder .*$control" "$out/show.err" || die "not in the list: $(cat "$out/show.err")"
  within 10 "$wharf" show "$forwarder" >"$out/show.err" || die "no control socket after kill -9"
  flows $c vd 1000
  quiet
  stop second "$forwarder" TERM
  [ $code -eq 0 ] || die "second: exit code $code"
  holds second "second['directions'][0]['sent'] > 900 and second['directions'][0]['pool']['out'] == 0"
  echo "kill -9: the next start forwards, at the same places"
}

hang() { # a poller that is stopped keeps the watchdog back, one that goes on feeds it again
  : >"$heard"
  service hang
  hears 2 WATCHDOG=1
  within 50 python3 - "$forwarder" "$heard" <<'P' || die "the watchdog: $(cat "$heard")"
import ctypes, glob, os, sys, time
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
pid, heard = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
fed = lambda: open(heard).read().count("WATCHDOG=1")
poller = next(int(task.split("/")[4]) for task in glob.glob(f"/proc/{pid}/task/*/comm") if open(task).read() == "wharf-poller\n")
assert libc.ptrace(SEIZE, poller, None, None) == 0 and libc.ptrace(INTERRUPT, poller, None, None) == 0, os.strerror(ctypes.get_errno())
os.waitpid(poller, 0x40000000)  # __WALL
# One that was on its way may come late.
silent = 0
for _ in range(5):
    before = fed()
    time.sleep(2)
    silent = fed() == before
    if silent:
        break
assert libc.ptrace(DETACH, poller, None, None) == 0
until = time.monotonic() + 20
while fed() < before + 2 and time.monotonic() < until:
    time.sleep(0.05)
sys.exit(0 if silent and fed() >= before + 2 else f"fed while it hangs: {not silent}; then {fed() - before} times")
P
  stop hang "$forwarder" TERM
  [ $code -eq 0 ] || die "hang: exit code $code"
  echo "the watchdog is fed only while the poller turns"
}

# privileges PID UID KEPT: see threads.py.
privileges() {
  tests/threads.py "$@" || die "privileges: $(grep -H '^Name\|^Uid\|^Cap\|^NoNew\|^Seccomp' /proc/"$1"/task/*/status)"
}

# reopens NAME UID KEPT OPTIONS...: a forwarder whose interface is made again under it goes on, with these privileges.
reopens() {
  local name=$1 uid=$2 kept=$3
  shift 3
  : >"$out/$name.err"
  "$@" --config "$config" >"$out/$name.json" 2>"$out/$name.err" &
  forwarder=$!
  soon grep -q forwarding "$out/$name.err" || die "$name does not start"
  privileges "$forwarder" "$uid" "$kept"
  # Behind the filter, too, the file is read.
  kill -HUP "$forwarder"
  ip -n $b link del vb
  sleep 0.3
  pair $a va $b vb
  soon grep -q "open again" "$out/$name.err" || die "$name: not opened again"
  traffic 2kpps
  flows $c vd 500
  quiet
  privileges "$forwarder" "$uid" "$kept"
  grep -q "read again: no setting changes" "$out/$name.err" || die "$name: not read again"
  stop "$name" "$forwarder" TERM
  [ $code -eq 0 ] || die "$name: exit code $code"
  holds "$name" "${name}['directions'][0]['sent'] > 400 and ${name}['directions'][0]['pool']['out'] == 0"
}

less() { # as the unit starts it, and as root with --user
  configure 50mbit
  sed -i '/^control/d' "$config"
  chmod 711 "$out" && chmod 644 "$config"
  local raw=0000000000003000
  reopens ambient 65534 $raw "${there[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all,+net_raw,+net_admin \
    --ambient-caps=-all,+net_raw,+net_admin "$wharf" forward --control off --capabilities reopen --seccomp on
  reopens changed 65534 0000008000007000 "${there[@]}" "$wharf" forward --control off --user 65534:65534 --capabilities reopen
  echo "after the start only wharf-reopen has capabilities, and an interface that is made again is opened by it"
}

unit() { # the unit, as systemd reads it
  local unit=$out/wharf-forward@.service
  command -v systemd-analyze >/dev/null || { echo "not here: systemd-analyze"; return; }
  # systemd before 253 does not know notify-reload.
  sed "s,/usr/bin/wharf,$wharf,; s/^Type=.*/Type=notify/" packaging/systemd/wharf-forward@.service >"$unit"
  within 20 systemd-analyze verify --man=no "$unit" >"$out/verify.err" 2>&1 && [ ! -s "$out/verify.err" ] || die "systemd-analyze verify"
  within 20 systemd-analyze --offline=true --threshold=30 security "$unit" --no-pager >"$out/security.err" || die "an exposure above 3.0"
  within 20 "$wharf" forward --config packaging/forward.toml --check 2>"$out/check.err" || die "the example"
  echo "the unit has no mistake, and an exposure of at most 3.0"
}

reloads
killed
hang
less
unit
