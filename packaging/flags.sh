# Sourced by the scripts that build what ships: the same sources give the same binary, whatever folder they are in.
# shellcheck shell=bash
cargo_home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/wharf --remap-path-prefix=$cargo_home=/cargo"
export RUSTFLAGS
