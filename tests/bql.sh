#!/usr/bin/env bash
# The byte limit behind real devices: one round of bench/bql.sh, with bounds that a busy machine keeps, too. The wire is the
# limit, and the queue in front of it differs by far more than noise. Needs root.
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
# A busy machine may lose packets, and gets another try: the gain of the byte limit is tens of times any lasting noise.
for _ in 1 2 3; do
  within 200 python3 bench/bql.py "$wharf" $a $b --rounds 1 --seconds 1.5 --check && exit
done
die "the byte limit"
