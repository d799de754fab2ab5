//! `vhost-user:SOCKET[,client=off|on,queues=1,packed=on|off]`.

use super::{PAIRS_MAX, VhostUser, VhostUserOptions};
use crate::open::Options;
use crate::units;
use std::path::Path;
use wharf_core::device::DeviceError;

/// Opens what the parts of a specification behind its colon say; with `pairs` queue pairs where they do not say how many.
///
/// # Errors
/// [`DeviceError::Unsupported`] for what cannot be, and those of [`VhostUser::open`].
pub(crate) fn open(parts: &[String], pairs: u32) -> Result<VhostUser, DeviceError> {
    let Some((socket, parts)) = parts.split_first().filter(|(socket, _)| !socket.is_empty()) else {
        let what = "which socket? vhost-user:SOCKET".into();
        return Err(DeviceError::Unsupported { device: "vhost-user".into(), what });
    };
    let kind = format!("vhost-user:{}", socket.escape_debug());
    let options = Options::new(&kind, parts, &["client", "queues", "packed"])?;
    let client = options.choose("client", &[("off", false), ("on", true)])?;
    let packed = options.choose("packed", &[("on", true), ("off", false)])?;
    let given = options.read("queues", units::size_bytes)?.unwrap_or(pairs.into());
    let pairs = match u16::try_from(given) {
        Ok(pairs @ 1..=PAIRS_MAX) => pairs,
        _ => return Err(options.fault(&format!("queues: {given} cannot be: 1 to {PAIRS_MAX}"))),
    };
    VhostUser::open(Path::new(socket), VhostUserOptions { client, pairs, packed })
}
