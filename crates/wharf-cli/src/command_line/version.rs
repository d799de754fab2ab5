//! Texts of `-V` and `--version`.

use crate::Registries;

/// Abilities that need more than any Linux that is still maintained.
const KERNEL: &str =
    "Linux; xdp receives from 5.9 on and carries long frames from 6.6 on, tap segments UDP from 6.2 on";

/// Returns the version with the commit that the program was built from, if it is known.
pub(super) fn short() -> String {
    match env!("WHARF_COMMIT") {
        "" => env!("CARGO_PKG_VERSION").into(),
        commit => format!("{} (commit {commit})", env!("CARGO_PKG_VERSION")),
    }
}

/// Returns the version with commit, compiler, built-in kinds and the kernel that is needed.
pub(super) fn long(registries: &Registries) -> String {
    let devices: Vec<&str> = registries.devices.kinds().iter().map(|kind| kind.name).collect();
    let qdiscs: Vec<&str> = registries.qdiscs.kinds().iter().map(|kind| kind.name).collect();
    format!(
        "{}\ncompiler: {} for {}\ndevices: {}\ndisciplines: {}\nkernel: {KERNEL}",
        short(),
        env!("WHARF_RUSTC"),
        env!("WHARF_TARGET"),
        devices.join(", "),
        qdiscs.join(", ")
    )
}
