//! The options of a specification `verbs:`.

use super::{PeerAddress, VerbsOptions};
use wharf_core::device::DeviceError;
use wharf_devices::spec::DeviceSpec;

/// Reads the options, for either direction.
pub(super) fn options(spec: &DeviceSpec) -> Result<VerbsOptions, DeviceError> {
    let default = VerbsOptions::default();
    let gid_index = match spec.options().text("gid") {
        None | Some("auto") => None,
        Some(text) => {
            let index = text.parse().map_err(|_| {
                spec.fault(format!("gid: \"{}\" cannot be: auto, or 0 to 255", text.escape_debug()))
            })?;
            Some(index)
        }
    };
    let peer = spec.options().text("peer").map(PeerAddress::parse).transpose();
    Ok(VerbsOptions {
        port: spec.number("port").unwrap_or(default.port),
        gid_index,
        peer: peer.map_err(|what| spec.fault(format!("peer: {what}")))?,
        batches: spec.options().is_on("batch"),
        ring_frames: spec.number("ring").unwrap_or(default.ring_frames),
        ..default
    })
}
