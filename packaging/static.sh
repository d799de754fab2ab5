#!/usr/bin/env bash
# Builds the `wharf` command as a static binary with musl, for any Linux of this processor. Puts it, stripped, and the licences
# into FOLDER.  Usage: packaging/static.sh FOLDER. PROFILE names another profile than `release`.
set -eu
cd "$(dirname "$0")/.."
out=${1:?name a folder: packaging/static.sh FOLDER}
profile=${PROFILE:-release} machine=$(uname -m)-unknown-linux-musl
[ -d "$(rustc --print sysroot)/lib/rustlib/$machine" ] || { echo "no standard library for $machine: rustup target add $machine" >&2; exit 1; }
. packaging/flags.sh
cargo build --quiet --locked --profile "$profile" --target "$machine" -p wharf-cli
mkdir -p "$out"
strip -o "$out/wharf" "${CARGO_TARGET_DIR:-target}/$machine/$profile/wharf"
cp LICENSE-MIT LICENSE-APACHE "$out/"
