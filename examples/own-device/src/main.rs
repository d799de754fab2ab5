//! Wharf's command line with a device and a queueing discipline of its own.
//!
//! `hex:FILE` writes each frame as a line of hexadecimal digits, and reads such lines (`hex.rs`). `drop_nth` drops every tenth packet
//! (`drop_nth.rs`). Each is one value in a registry; `send`, `receive`, `forward`, help and `devices` then know it:
//!
//! ```text
//! own-device send --size 60 --count 20 --to hex:out.txt --qdisc drop_nth:n=10
//! own-device receive --from hex:out.txt
//! own-device forward hex:out.txt pcap:out.pcap
//! own-device devices
//! ```
#![forbid(unsafe_code)]

mod drop_nth;
mod hex;

use std::process::ExitCode;
use wharf::devices::registry::Registry;
use wharf::qdisc::QdiscRegistry;
use wharf_cli::Registries;

fn main() -> ExitCode {
    let devices = match Registry::default().with(&hex::KIND) {
        Ok(devices) => devices,
        Err(error) => {
            eprintln!("own-device: {error}");
            return ExitCode::FAILURE;
        }
    };
    let registries = Registries { devices, qdiscs: QdiscRegistry::default().with(&drop_nth::KIND) };
    wharf_cli::run(&registries, std::env::args_os())
}
