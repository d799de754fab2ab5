//! `virtio-user:SOCKET[,server=off|on,reconnect=off|on,queues=1,packed=off|on,in_order=auto|on|off,mrg_rxbuf=auto|on|off,offload=on|off,size=256,napi=on|off|timer,clean=here|anywhere]`.

use super::{Napi, PAIRS_MAX, VirtioUserOptions};
use crate::open::Options;
use crate::units;
use crate::virtio::Layout;
use std::path::Path;
use wharf_core::device::{Device, DeviceError};

/// Opens what the parts of a specification behind its colon say.
///
/// # Errors
/// [`DeviceError::Unsupported`] for what cannot be, and those of [`super::open`].
pub(crate) fn open(parts: &[String], pairs: u32) -> Result<Box<dyn Device>, DeviceError> {
    let Some((path, parts)) = parts.split_first().filter(|(path, _)| !path.is_empty()) else {
        let what = "which socket? virtio-user:SOCKET".into();
        return Err(DeviceError::Unsupported { device: "virtio-user".into(), what });
    };
    let kind = format!("virtio-user:{}", path.escape_debug());
    let keys = [
        "server",
        "reconnect",
        "queues",
        "packed",
        "in_order",
        "mrg_rxbuf",
        "offload",
        "size",
        "napi",
        "clean",
    ];
    let options = Options::new(&kind, parts, &keys)?;
    let switch = [("off", false), ("on", true)];
    let where_offered = [("auto", None), ("on", Some(true)), ("off", Some(false))];
    let napi = options.choose(
        "napi",
        &[("on", Napi::On { anywhere: false }), ("off", Napi::Off), ("timer", Napi::Timer)],
    )?;
    let anywhere = options.choose("clean", &[("here", false), ("anywhere", true)])?;
    let napi = match napi {
        Napi::On { .. } => Napi::On { anywhere },
        _ if anywhere => return Err(options.fault("clean: with napi=off or timer, whoever transmits cleans")),
        napi => napi,
    };
    let mut spec = VirtioUserOptions {
        napi,
        server: options.choose("server", &switch)?,
        reconnect: options.choose("reconnect", &switch)?,
        packed: options.choose("packed", &switch)?,
        in_order: options.choose("in_order", &where_offered)?,
        mrg_rxbuf: options.choose("mrg_rxbuf", &where_offered)?,
        offload: options.choose("offload", &[("on", true), ("off", false)])?,
        ..VirtioUserOptions::default()
    };
    if let Some(size) = options.read("size", units::size_bytes)? {
        let layout = if spec.packed { Layout::Packed } else { Layout::Split };
        let checked = layout.check_size(u32::try_from(size).unwrap_or(u32::MAX));
        spec.size = checked.map_err(|error| options.fault(&format!("size: {error}")))?;
    }
    let pairs = options.read("queues", units::size_bytes)?.unwrap_or(pairs.into());
    spec.pairs = match u16::try_from(pairs) {
        Ok(pairs @ 1..=PAIRS_MAX) => pairs,
        _ => return Err(options.fault(&format!("queues: {pairs} cannot be: 1 to {PAIRS_MAX}"))),
    };
    super::open(Path::new(path), spec)
}
