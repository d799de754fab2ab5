//! Warns of, or refuses, a device that takes arrivals from this host.

use crate::args::HostArgs;
use crate::output::warn;
use crate::usage;
use wharf_devices::host_loss::HostLoss;
use wharf_devices::spec::{DeviceSpec, Direction};

/// Reports what this host loses to the device, before it is opened. Refuses to cut the host off without
/// `--take-host`.
pub fn spare(args: HostArgs, spec: &DeviceSpec, direction: Direction) -> anyhow::Result<()> {
    let Some(HostLoss { what, is_vital, remedy }) = (spec.kind().host_loss)(spec, direction) else {
        return Ok(());
    };
    let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
    if is_vital && !args.take_host {
        return Err(usage(format!("{what}: --take-host does it all the same{remedy}")));
    }
    warn(&format!("{what}{remedy}"));
    Ok(())
}
