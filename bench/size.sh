#!/usr/bin/env bash
# The size of a minimal program: one that opens a path by a specification and sends 32 packets, with `wharf` as its only
# dependency and the devices xdp, packet and udp. Prints bytes, stripped: as cargo's release profile builds it, and with fat LTO;
# then the number of crates, and the processor time of a cold build.  Usage: bench/size.sh
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
mkdir "$out/src"
cat >"$out/Cargo.toml" <<T
[package]
name = "minimal"
version = "0.1.0"
edition = "2021"
[dependencies]
wharf = { path = "$PWD/crates/wharf", default-features = false, features = ["xdp", "packet", "udp"] }
[profile.release]
strip = true
[profile.lto]
inherits = "release"
lto = "fat"
codegen-units = 1
[workspace]
T
cat >"$out/src/main.rs" <<'T'
use wharf::{Direction, Port};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Port::open("udp:127.0.0.1:9", Direction::Send)?;
    let mut sender = path.sender("minimal")?;
    let mut burst = sender.burst(32);
    sender.fill(&mut burst, 32, 64)?;
    sender.send(&mut burst)?;
    Ok(())
}
T
cp Cargo.lock "$out/"
export CARGO_TARGET_DIR=$out/target
cd "$out"
cargo fetch --quiet
TIMEFORMAT="cold build: %R s, %U s of processor"
time cargo build --quiet --release --offline
cargo build --quiet --profile lto --offline
for profile in release lto; do echo "$profile: $(stat -c %s "target/$profile/minimal") bytes"; done
echo "crates: $(cargo tree --offline --edges normal --prefix none | sort -u | sed '/(\*)/d' | wc -l), this one included"
