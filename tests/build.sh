#!/usr/bin/env bash
# Builds what the suites and benchmarks in shell run, and prints the folder that holds it. PROFILE names the profile, `release`
# without: the command as it ships, without examples and without the programs that `wharf lab`, `wharf plan` and `wharf bench` run. Every
# suite makes the same choice of packages and targets: another may change a feature of a dependency, and Cargo would compile that again.
# Usage: tests/build.sh [-p wharf-lab-cli --bin wharf-lab] [--example NAME]..., which `release` alone needs
set -eu
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
# `./test` sets BUILT to the folder, which has all that suites want but for `release`.
[ "$profile" = release ] || [ -z "${BUILT:-}" ] || { echo "$BUILT"; exit; }
what=(-p wharf-cli --bin wharf)
[ "$profile" = release ] && [ $# -gt 0 ] && what+=(-p wharf -p wharf-devices -p own-device --bin own-device "$@")
if [ "$profile" != release ]; then
  what+=(-p wharf-lab-cli --bin wharf-lab -p wharf-bench --bin wharf-bench)
  what+=(-p wharf -p wharf-devices -p own-device --bin own-device --example virtio_loop)
  for example in retransmit echo balance capture dns soak; do what+=(--example $example); done
fi
cargo build --quiet --profile "$profile" "${what[@]}" >&2
echo "$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/$profile"
