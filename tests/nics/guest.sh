# Functions of the guest, which `init` loads. The host calls them by the console; a name of a run is that of its files in /tmp.
# shellcheck shell=sh
export PATH=/tools:/bin
# Busybox's shell prefers its own commands of these names.
ip() { /tools/ip "$@"; }
tc() { /tools/tc "$@"; }

# The test's own ends are eth0 and eth1. Behind them are eth2, in namespace l, and eth3, in namespace r.
wire() {
  ip netns add l && ip netns add r && ip link set eth2 netns l && ip link set eth3 netns r || return
  for i in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do
    for space in l r; do ip netns exec $space sh -c "echo 1 >$i/disable_ipv6"; done
  done
  # One queue, which all that arrives comes by; adapters that have no more refuse.
  for i in 0 1; do ethtool -L eth$i combined 1; done 2>/dev/null
  for i in "l 2" "r 3"; do ip netns exec ${i% *} ethtool -L eth${i#* } combined 1; done 2>/dev/null
  ip link set eth0 up && ip link set eth1 up && ip -n l link set eth2 up && ip -n r link set eth3 up || return
  carrier eth0 && carrier eth1
}

# in_space SPACE COMMAND...: runs it in namespace l or r, or here for `-`.
in_space() {
  local space=$1
  shift
  if [ "$space" = - ]; then "$@"; else ip netns exec "$space" "$@"; fi
}

# carrier INTERFACE: waits until it has one.
carrier() {
  for _ in $(seq 150); do
    [ "$(cat /sys/class/net/"$1"/carrier 2>/dev/null)" = 1 ] && return
    sleep 0.1
  done
  echo "$1 has no carrier"
  return 1
}

mac() { # SPACE INTERFACE
  in_space "$1" cat /sys/class/net/"$2"/address
}

# begin NAME 'LINE WHEN READY, OR NOTHING' SPACE COMMAND...: starts it in the background.
begin() {
  local name=$1 ready=$2 space=$3
  shift 3
  : >/tmp/"$name".err
  if [ "$space" = - ]; then "$@" >/tmp/"$name".json 2>/tmp/"$name".err & else
    # Its own path: the process is then the command, for signals to reach it.
    /tools/ip netns exec "$space" "$@" >/tmp/"$name".json 2>/tmp/"$name".err &
  fi
  echo $! >/tmp/"$name".pid
  [ -n "$ready" ] || return 0
  for _ in $(seq 300); do
    grep -q "$ready" /tmp/"$name".err /tmp/"$name".json && return
    kill -0 "$(cat /tmp/"$name".pid)" 2>/dev/null || break
    sleep 0.1
  done
  cat /tmp/"$name".err
  return 1
}

# await NAME: waits for its end. Returns its exit code.
await() { wait "$(cat /tmp/"$1".pid)"; }

# finish NAME SIGNAL: asks for its end. Returns its exit code.
finish() {
  kill -"$2" "$(cat /tmp/"$1".pid)" && await "$1"
}

# run NAME SPACE COMMAND...: runs it for 60 s at most, or LIMIT of them. Returns its exit code.
run() {
  local name=$1 space=$2
  shift 2
  in_space "$space" timeout -s INT "${LIMIT:-60}" "$@" >/tmp/"$name".json 2>/tmp/"$name".err
}

# give FILE: sends it by the second serial line.
give() { cat "$1" >/dev/ttyS1; }

# rest: prints what is left on eth0 and eth1 of a program of ours, and what the kernel complains of.
rest() {
  ip link show eth0 | grep -o 'xdp[^ ]*'
  ip link show eth1 | grep -o 'xdp[^ ]*'
  dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|RIP:|hung|Tx Unit Hang|transmit timed out|NETDEV WATCHDOG'
  return 0
}

# rebind INTERFACE: unbinds its driver and binds it again. The interface has its name, and is up.
rebind() {
  local device bus driver
  device=$(readlink -f /sys/class/net/"$1"/device) || return
  driver=$(readlink -f "$device"/driver)
  echo "${device##*/}" >"$driver"/unbind
  sleep 1
  echo "${device##*/}" >"$driver"/bind
  for _ in $(seq 50); do
    [ -e /sys/class/net/"$1" ] && break
    sleep 0.1
  done
  ip link set "$1" up
}
