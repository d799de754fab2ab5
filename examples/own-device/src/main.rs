//! Wharf's command line with a device and a queueing discipline of its own.
//!
//! `hex:FILE` writes each frame as a line of hexadecimal digits (`hex.rs`). `drop_nth` drops every tenth packet (`drop_nth.rs`). Each is
//! one value in a registry; `send`, `forward`, help and `devices` then know it:
//!
//! ```text
//! own-device send --size 60 --count 20 --to hex:out.txt --qdisc drop_nth:n=10
//! own-device forward pcap:data/sample.pcap hex:out.txt
//! own-device devices
//! ```
#![forbid(unsafe_code)]

mod drop_nth;
mod hex;

use std::process::ExitCode;
use wharf_cli::Registries;

fn main() -> ExitCode {
    let Registries { devices, qdiscs } = Registries::default();
    let devices = match devices.with(&hex::KIND) {
        Ok(devices) => devices,
        Err(error) => {
            eprintln!("own-device: {error}");
            return ExitCode::FAILURE;
        }
    };
    let registries = Registries { devices, qdiscs: qdiscs.with(&drop_nth::KIND) };
    wharf_cli::run(&registries, std::env::args_os())
}

#[cfg(test)]
mod tests {
    use wharf::qdisc::{QdiscRegistry, QdiscSetup};

    #[test]
    fn the_contract_of_a_discipline_is_kept() {
        let registry = QdiscRegistry::default().with(&super::drop_nth::KIND);
        for seed in 0..200 {
            let spec = registry.parse(&format!("drop_nth:n={}", 1 + seed % 12)).unwrap();
            wharf::testing::check_qdisc(seed, spec.build(QdiscSetup::default()));
        }
    }
}
