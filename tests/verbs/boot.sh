# The guest of tests/verbs.sh and bench/verbs.sh: sourced behind tests/rig.sh and tests/guest-rig.sh.
# shellcheck shell=bash
library=$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)
# The library knows its providers by the folder that it was built with, not by a link to that.
provider=$(readlink -f "${library%/*}"/libibverbs/librxe-*.so)
[ -e "$provider" ] || { echo "no libibverbs with soft-RoCE: apt install libibverbs1 ibverbs-providers"; exit 77; }
TOOLS=rdma FILES="$library $provider /etc/libibverbs.d/rxe.driver" FUNCTIONS=tests/verbs/guest.sh guest_image

# boot: starts the guest and makes the fabric.
boot() {
  start_guest "no_timer_check adapter=rdma" -machine q35
  guest fabric || die "no RDMA devices: $reply"
}
