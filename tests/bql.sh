#!/usr/bin/env bash
# The byte limit at work behind real devices, one round of bench/bql.sh, with bounds that a busy machine keeps, too: the wire
# is limited, and what stands in front of it differs by far more than any noise. Needs root.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/rig.sh
space $a && space $b
pair $a va $b vb
if ! slow_wire $b vb 100mbit; then
  echo "skipped: $missing"
  [ "${CI:-}" != true ]
  exit
fi
# A machine that is busy just then gets another chance: the byte limit's gain is tens of times any noise that lasts.
for _ in 1 2 3; do
  within 200 python3 bench/bql.py "$wharf" $a $b --rounds 1 --seconds 3 --check && exit
done
die "the byte limit"
