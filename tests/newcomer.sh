#!/usr/bin/env bash
# A newcomer in a container without privileges: user nobody, no capability, a network of its own with `lo` alone, a root that is
# read-only. The first minute of README.md runs there as it stands; what cannot run says in one line what it lacks. Needs root to make
# the container. Leaves nothing behind.
set -eu -o pipefail
cd "$(dirname "$0")/.."
wharf=${WHARF:-$(tests/build.sh)/wharf}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
python3 - >"$out/first-minute" <<'P'
text = open("README.md").read().split("## First minute")[1]
print(text.split("```sh\n")[1].split("```")[0] + "wait")
P
cat >"$out/walk" <<'W'
set -u -o pipefail
die() { echo "FAILED: $*"; exit 1; }

# says CODE TEXT COMMAND...: that exit code, and the text in what it prints; a failure is a line, and there is never a panic.
says() {
  local code=$1 text=$2 came=0
  shift 2
  timeout 30 "$@" >"$HOME/out" 2>"$HOME/err" </dev/null || came=$?
  [ $came -eq "$code" ] || die "$*: exit code $came: $(cat "$HOME/out" "$HOME/err")"
  grep -qe "$text" "$HOME/out" "$HOME/err" || die "$*: no \"$text\" in: $(cat "$HOME/out" "$HOME/err")"
  ! grep -q "panicked" "$HOME/err" || die "$*: $(cat "$HOME/err")"
  # In front of it a note may say what the host would lose.
  [ "$code" -eq 0 ] || [ "$(grep -c '^wharf: ' "$HOME/err")" -le 2 ] || die "$*: more than a line: $(cat "$HOME/err")"
}

grep -q "^CapEff:\s0*$" /proc/self/status && [ "$(id -u)" -ne 0 ] || die "it has privileges"
! touch /usr/file 2>/dev/null || die "the root can be written to"
cd "$HOME" && bash -eu first-minute >first.out 2>first.err || die "the first minute: $(tail -n 5 first.out first.err)"
for text in "byte limit on" "arrived byte for byte" "^generated  *[1-9]"; do
  grep -q "$text" first.out || die "the first minute lacks \"$text\": $(cat first.out)"
done
says 0 2200 wharf receive --from pcap:data/sample.pcap
says 0 "no CAP_NET_RAW" wharf devices
says 0 "udp  *a UDP socket\|udp .*ready" wharf devices
for device in packet:lo xdp:lo; do
  says 1 CAP_NET_RAW wharf send --size 60 --count 1 --to $device
  says 1 CAP_NET_RAW wharf doctor $device
  says 1 "CAP_" wharf receive --from $device --seconds 1
done
says 1 "CAP_NET_ADMIN\|/dev/net/tun" wharf receive --from tap:vm0 --seconds 1
says 1 "Read-only\|Permission" wharf send --size 60 --count 1 --to null --report /usr/report
says 0 "no wharf with a control socket" wharf show
says 0 "What to do" wharf explain ring-full
W
# The container: what is written lies in memory.
cat >"$out/container" <<'C'
set -e
mount --make-rprivate / && mount -t tmpfs none /mnt && ip link set lo up
install -m 755 "$1" /mnt/wharf && mkdir /mnt/data && cp data/sample.pcap /mnt/data && cp "$2"/first-minute "$2"/walk /mnt
chown -R nobody /mnt && mount -o remount,bind,ro /
exec setpriv --reuid=nobody --regid=65534 --clear-groups --bounding-set=-all --no-new-privs \
  env -i PATH=/mnt:/usr/bin:/bin HOME=/mnt TERM=dumb LANG=C.UTF-8 bash /mnt/walk
C
unshare --net --mount --pid --fork --kill-child --mount-proc bash "$out/container" "$wharf" "$out"
echo "a newcomer without privileges: the first minute runs, and what cannot run says what it lacks"
