#!/usr/bin/env bash
# The topologies of `./test net` in a guest with a current kernel, which has what this machine's may lack: VLAN, QinQ, bonds, VRFs,
# GRE, IPIP. Kernel and QEMU are those of tests/nics.sh (tests/nics/fetch.sh), emulated. Ends with 77, and its reason, where they are
# not to be had. Usage: tests/net-guest.sh [TEST]..., such as topologies::bond or kinds::vrf; QUESTIONS is the number of destinations of
# each topology, and WHARF_ROUTED_SECONDS and WHARF_ROUTED_PPS lengthen the run with random changes (crates/wharf-route/tests/routed/random.rs).
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
. tests/guest-rig.sh
# built CRATE TEST: the program of a crate's tests, in $out.
built() {
  local program
  program=$(cargo test --quiet -p "$1" --test "$2" --no-run --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
  cp "$program" "$out/$1-tests" && strip "$out/$1-tests" || die "no tests of $1"
}
built wharf-net kernel
built wharf-route routed
TOOLS="$out/wharf-net-tests $out/wharf-route-tests" guest_image
patience=${PATIENCE:-600} pps=${WHARF_ROUTED_PPS:-500}
# The modules of VXLAN come with those of RDMA.
start_guest adapter=rdma -machine q35
failed=0
# The tests of forwarding want Python's sockets.
[ $# -gt 0 ] || set -- $("$out/wharf-net-tests" --ignored --list | sed -n 's/^\(topologies::.*\): test$/\1/p') \
  $("$out/wharf-route-tests" --ignored --list | sed -n '/^forwarding/d; s/: test$//p')
for test in "$@"; do
  crate=wharf-route
  [ "${test%%::*}" = topologies ] && crate=wharf-net
  if ! guest "IP=/tools/ip QUESTIONS=${QUESTIONS:-1000} WHARF_ROUTED_PPS=$pps ${WHARF_ROUTED_SECONDS:+WHARF_ROUTED_SECONDS=$WHARF_ROUTED_SECONDS} \
    $crate-tests --ignored --exact --nocapture $test 2>&1"; then
    failed=1
    echo "$test:" && echo "$reply" | head -n 40
  fi
  # A test that is skipped on a kernel that should have its interfaces is a failure.
  grep -q "skipped" <<<"$reply" && { echo "$test: the guest's kernel has no such interfaces" && failed=1; }
  echo "$reply" | grep -E 'differ$|destinations$|^seed|sent, '
done
halt
[ $failed -eq 0 ] || die "the guest's kernel differs"
echo "net-guest: done after $SECONDS s"
