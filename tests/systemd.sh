#!/usr/bin/env bash
# The Debian package and its unit under a real systemd: a clean Debian 13, whose init runs in namespaces of its own (processes, mounts,
# network, control groups) under this kernel. Started, forwards, reloaded, a file with a mistake, kill -9, a hang, stopped, purged; the
# privileges of each thread, and the exposure that `systemd-analyze security` finds. Needs root, and a mirror that has Debian 13; the
# clean system is kept in WHARF_GUEST_CACHE (140 MB). Leaves nothing else behind; every command has a time limit.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
cache=${WHARF_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wharf-guest}/systemd.tar
release=trixie keys=/usr/share/keyrings/debian-archive-keyring.gpg
system=$out/system init=""

leave() {
  [ -z "$init" ] || kill -9 "$init" 2>/dev/null
  wait 2>/dev/null
  [ ! -d "${group:-/nowhere}" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
  cleanup
}
trap leave EXIT

# The clean system: systemd-sysv is what makes systemd the init.
if [ ! -s "$cache" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$')
  mkdir -p "${cache%/*}" && mmdebstrap --quiet --variant=minbase --include=systemd-sysv,dbus,iproute2,procps "$release" "$cache.part" \
    "deb [signed-by=$keys] $mirror $release main" --format=tar 2>"$out/mmdebstrap.err" || { echo "no Debian $release: $(tail -n 1 "$out/mmdebstrap.err")"; exit 77; }
  mv "$cache.part" "$cache"
fi
mkdir "$system" && tar -x -C "$system" -f "$cache" --exclude './dev/*' || die "the clean system"
package=$(WHARF=$wharf packaging/deb.sh "$out") && cp "$package" "$system/wharf.deb" || die "no package"
chroot "$system" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin dpkg -i /wharf.deb >"$out/dpkg.err" 2>&1 || die "dpkg: $(tail -n 2 "$out/dpkg.err")"
[ ! -e "$system/etc/systemd/system/multi-user.target.wants/wharf-forward@uplink.service" ] || die "the package enables a unit"

# The init, in a control group of its own (cgroup v2), the root of those that it makes.
groups=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)
group=$groups/wharf-$$
mkdir "$group" || die "no control group"
cat >"$out/boot" <<'B'
set -e
mount --make-rprivate /
mount --bind "$1" "$1" && cd "$1"
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 run run && mount -t tmpfs -o mode=755 dev dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "kmsg 1 11"; do
  set -- $node
  mknod -m 666 "dev/$1" c "$2" "$3"
done
mkdir dev/net dev/pts dev/shm && mknod -m 666 dev/net/tun c 10 200 && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx
ip link set lo up
pivot_root . mnt && umount -l /mnt && cd /
exec env -i container=other PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --show-status=no --default-standard-output=journal
B
(echo "$BASHPID" >"$group/cgroup.procs" && exec unshare --fork --kill-child --pid --mount --net --ipc --uts --cgroup bash "$out/boot" "$system") >"$out/init.err" 2>&1 &
for _ in $(seq 100); do init=$(pgrep -P $!) && break; sleep 0.05; done
[ -n "$init" ] || die "no init"
inside() { within 60 nsenter -t "$init" -m -u -i -n -p -C env -i PATH=/usr/sbin:/usr/bin LC_ALL=C SYSTEMD_PAGER= "$@"; }
for _ in $(seq 300); do
  state=$(inside systemctl is-system-running 2>/dev/null)
  case $state in running | degraded) break ;; esac
  sleep 0.2
done
case $state in running | degraded) ;; *) die "systemd does not come up: $state: $(tail -n 3 "$out/init.err")" ;; esac
echo "$(inside systemctl --version | head -n 1): $state"

unit=wharf-forward@uplink
configure() { # RATE
  printf 'a = "packet:vb"\nb = "packet:vc"\nrate = "%s"\n' "$1" >"$system/etc/wharf/uplink.toml"
}
property() { inside systemctl show -P "$1" $unit; }
state() { [ "$(property ActiveState)/$(property Result)" = "$1" ] || die "$2: $(inside systemctl status --no-pager $unit | tail -n 8)"; }
# The process, as this process sees it: it is the only forwarder among the descendants of the init.
main() { pgrep --ns "$init" --nslist pid -f "wharf forward --config /etc/wharf/uplink.toml"; }
shown() { inside wharf show /run/wharf-uplink/control.sock --json >"$out/shown.json" || die "$1: no counters"; }
# passes WHAT: 300 packets of one end of the pairs arrive at the other.
passes() {
  inside wharf receive --from packet:vd --count 300 --seconds 20 --json >"$out/got.json" 2>"$out/got.err" &
  local receiver=$!
  for _ in $(seq 100); do grep -q "listening on" "$out/got.err" && break; sleep 0.05; done
  inside wharf send --size 100 --count 300 --rate 2kpps --to packet:va --json >"$out/sent.json" 2>"$out/sent.err" || die "$1: nothing is sent"
  wait $receiver || die "$1: not all packets arrive"
  holds got sent 'got["lost"] == 0 and got["packets"] == sent["sent"] == 300'
}

mkdir -p "$system/etc/wharf"
inside sh -c 'for at in all default; do echo 1 >/proc/sys/net/ipv6/conf/$at/disable_ipv6; done
  ip link add va type veth peer name vb && ip link add vd type veth peer name vc && for at in va vb vc vd; do ip link set $at arp off up; done' || die "no interfaces"

begins() {
  configure 20mbit
  inside systemctl enable --now $unit 2>"$out/enable.err" || die "it does not start: $(inside journalctl --no-pager -n 5 -u $unit)"
  state active/success "started"
  [ "$(property Type)/$(property StatusText | grep -c .)" = notify-reload/1 ] || die "no status: $(property StatusText)"
  local pid
  pid=$(main)
  tests/threads.py "$pid" "$(awk '/^Uid/ { print $2 }' "/proc/$pid/status")" 0000008000003000 || die "privileges after the start"
  [ "$(awk '/^Uid/ { print $2 }' "/proc/$pid/status")" -ge 61184 ] || die "not a user of its own"
  passes "started"
  echo "started: active, with status, as user $(awk '/^Uid/ { print $2 }' "/proc/$pid/status"), capabilities as documented, and forwards"
}

reloads() {
  configure 30mbit
  inside systemctl reload $unit || die "a reload fails"
  shown "reloaded"
  holds shown 'all(path["settings"]["rate"] == "30000000bit" for path in shown["paths"])'
  configure fast
  inside systemctl reload $unit 2>/dev/null && die "a mistake is no error of the reload"
  state active/success "a reload with a mistake"
  shown "a mistake"
  holds shown 'all(path["settings"]["rate"] == "30000000bit" for path in shown["paths"])'
  configure 30mbit
  passes "reloaded"
  echo "reloaded: another rate is in force; a file with a mistake fails the reload, and changes nothing"
}

machines() { # with the drop-in of the guide a machine of another user reaches its socket in the unit's folder, and root sees both services
  local other=wharf-forward@vms group
  mkdir -p "$system/etc/systemd/system/$other.service.d"
  sed -n "/^## A machine's socket/,/^## Privileges/{/^\`\`\`ini/,/^\`\`\`$/{/^\`/!p}}" docs/guide/service.md >"$system/etc/systemd/system/$other.service.d/machines.conf"
  printf 'a = "vhost-user:/run/wharf-vms/vm1.sock,mode=660"\nb = "packet:vc"\n' >"$system/etc/wharf/vms.toml"
  inside groupadd --system --force kvm && inside systemctl daemon-reload
  inside systemctl start $other || die "machines: $(inside journalctl --no-pager -n 5 -u $other)"
  group=$(inside getent group kvm | cut -d: -f3)
  inside setpriv --reuid=65534 --regid="$group" --clear-groups wharf send --size 100 --count 100 \
    --to virtio-user:/run/wharf-vms/vm1.sock --json >"$out/machine.json" 2>"$out/machine.err" || die "a machine's user does not reach its socket"
  holds machine 'machine["sent"] == 100'
  inside setpriv --reuid=65534 --regid=65534 --clear-groups wharf send --size 100 --count 1 \
    --to virtio-user:/run/wharf-vms/vm1.sock >"$out/other.json" 2>&1 && die "any user reaches it"
  inside wharf show >"$out/show.err" && [ "$(grep -c 'wharf-uplink/control.sock\|wharf-vms/control.sock' "$out/show.err")" -eq 2 ] || die "root does not see the services"
  inside systemctl stop $other
  echo "a machine of another user reaches its socket in the unit's folder, and root sees both services"
}

# anew WHAT SECONDS COMMAND...: the command ends the process, and systemd starts another one within the time.
anew() {
  local what=$1 seconds=$2 before
  shift 2
  before=$(main)
  "$@" "$before"
  for _ in $(seq $((seconds * 5))); do
    [ -n "$(main)" ] && [ "$(main)" != "$before" ] && [ "$(property ActiveState)" = active ] && break
    sleep 0.2
  done
  [ "$(main)" != "$before" ] || die "$what: not started again"
  state active/success "$what"
  passes "$what"
  echo "$what: started again ($(property NRestarts) in all), and forwards"
}

ends() {
  inside systemctl stop $unit || die "it does not stop"
  state inactive/success "stopped"
  [ -z "$(main)" ] || die "a process stays"
  inside journalctl --no-pager -o cat -u $unit >"$out/journal" && grep -q "forwarding packet:vb to packet:vc" "$out/journal" || die "no journal"
  inside dpkg --purge wharf >"$out/purge.err" 2>&1 || die "purge: $(tail -n 2 "$out/purge.err")"
  [ ! -e "$system/usr/lib/systemd/system/wharf-forward@.service" ] || die "the unit stays"
  echo "stopped: inactive, with its summary in the journal; purged"
}

begins
reloads
machines
anew "kill -9" 20 kill -9
# The watchdog of the unit ends a process that hangs after 10 s.
anew "a hang" 40 kill -STOP
inside systemd-analyze security --no-pager $unit.service | tail -n 1 | sed 's/^[^A-Za-z]*//' | tee "$out/exposure"
grep -q ": 2\.[0-9] OK" "$out/exposure" || die "another exposure than documented"
ends
