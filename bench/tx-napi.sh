#!/usr/bin/env bash
# A virtual machine's queue (`virtio-user`) into a device (`vhost-user`) in one process: streams and round trips by the time at
# which transmitted buffers are freed (`napi=off`, `timer`, `on`), beside figures published in 2017 for Linux's driver. The modes
# take turns; medians of rounds.  Usage: bench/tx-napi.sh [--json] [KEY=VALUE...]; keys: lab/wharf-lab/examples/tx_napi/parameters.toml
set -eu
cd "$(dirname "$0")/.."
TMPDIR=$(mktemp -d) # for the sockets
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
cargo build --quiet --release -p wharf-lab --example tx_napi
"${CARGO_TARGET_DIR:-target}/release/examples/tx_napi" "$@"
