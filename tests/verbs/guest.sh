# Functions of the guest of tests/verbs.sh, which `init` loads behind those of tests/nics/guest.sh.
# shellcheck shell=sh
# Busybox's shell has no command of this name, but it is called in namespaces.
rdma() { /tools/rdma "$@"; }

# soft_roce SPACE INTERFACE: makes the RDMA device rxe-SPACE on it. Each namespace sees all of them (`rdma system`: netns shared); a device
# belongs to the namespace of its interface, and programs that resolve neighbours run there.
soft_roce() { ip netns exec "$1" /tools/rdma link add "rxe-$1" type rxe netdev "$2"; }

# fabric: namespaces l and r with a veth pair that carries datagrams of 4096 bytes, and an RDMA device on either end.
fabric() {
  ip netns add l && ip netns add r && ip -n l link add va type veth peer name vb netns r || return
  for i in "l va 1" "r vb 2"; do
    set -- $i
    ip -n "$1" link set lo up && ip -n "$1" link set "$2" mtu 4200 up && ip -n "$1" addr add "10.9.0.$3/24" dev "$2" || return
  done
  soft_roce l va && soft_roce r vb
}

# left: prints the queue pairs that programs have, and what the kernel complains of.
left() {
  /tools/rdma resource show qp | grep -w UD
  dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|RIP:|hung'
  return 0
}

# busy: prints the ticks (1/100 s) in which the guest was not idle.
busy() {
  set -- $(head -n 1 /proc/stat)
  echo $(($2 + $3 + $4 + $7 + $8))
}

# spent SPACE COMMAND...: runs it as `sent`, and prints the ticks of the process, and those of the whole guest.
spent() {
  local space=$1 before after
  shift
  before=$(busy)
  ip netns exec "$space" sh -c '"$@" >/tmp/sent.json 2>/tmp/sent.err; code=$?
    set -- $(cat /proc/$$/stat); echo $((${16} + ${17})); exit $code' sh "$@" || return
  after=$(busy)
  echo $((after - before))
}
