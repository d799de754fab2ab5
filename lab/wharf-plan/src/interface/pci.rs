//! A PCI Express link, from the configuration space and the attributes of a device in sysfs.
//!
//! Offsets are those of the PCI Express base specification, 7.5.1 (header) and 7.5.3 (PCI Express
//! capability).

use super::{file_start, file_text, names};
use serde::Serialize;
use std::path::Path;

/// A negotiated link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PcieLink {
    /// Generation, 1 to 6.
    pub generation: u32,
    /// Lanes.
    pub lanes: u32,
    /// Highest generation of the device.
    pub generation_max: Option<u32>,
    /// Most lanes of the device.
    pub lanes_max: Option<u32>,
    /// Maximum payload.
    pub mps_bytes: Option<u32>,
    /// Maximum read request.
    pub mrrs_bytes: Option<u32>,
    /// Read completion boundary.
    pub rcb_bytes: Option<u32>,
    /// Reads in flight that the tags allow.
    pub tags: Option<u32>,
}

/// Values that could not be read, and the reasons.
type Missed = Vec<(&'static str, String)>;

const STATUS: usize = 0x06;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const CAPABILITIES: usize = 0x34;
/// Bytes of the standard header; capabilities follow.
const HEADER_BYTES: usize = 0x40;
const PCI_EXPRESS: u8 = 0x10;
/// Offsets in the capability.
const DEVICE_CONTROL: usize = 0x08;
const LINK_CONTROL: usize = 0x10;
const LINK_STATUS: usize = 0x12;
const DEVICE_CONTROL_2: usize = 0x28;

/// The fields of the capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Capability {
    speed: u32,
    lanes: u32,
    mps_bytes: Option<u32>,
    mrrs_bytes: Option<u32>,
    rcb_bytes: u32,
    tags: u32,
}

/// Returns `device`, or its parent (virtio), whichever is on PCI.
fn on_pci(device: &Path) -> Option<&Path> {
    let is_pci =
        |folder: &Path| folder.join("config").is_file() || folder.join("current_link_speed").is_file();
    [Some(device), device.parent()].into_iter().flatten().find(|folder| is_pci(folder))
}

/// Returns the kernel's interface of a PCI device, which may lie below a virtio device. The first of several.
pub(super) fn interface_of(device: &Path) -> Option<String> {
    let virtio = names(device).into_iter().filter(|name| name.starts_with("virtio"));
    let folders = std::iter::once(device.to_path_buf()).chain(virtio.map(|name| device.join(name)));
    folders.flat_map(|folder| names(&folder.join("net"))).next()
}

/// Reads the vendor's and the device's number of `device`, or of its parent: `8086:10c9`.
pub(super) fn id(device: &Path) -> Option<String> {
    let device = on_pci(device)?;
    let number = |name: &str| {
        let text = file_text(&device.join(name)).ok()?;
        u16::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    Some(format!("{:04x}:{:04x}", number("vendor")?, number("device")?))
}

/// Reads the link of `device`, or of its parent (virtio).
pub(super) fn read(device: &Path) -> Result<(PcieLink, Missed), String> {
    let device = on_pci(device).ok_or("the device behind it is not on PCI")?;
    let config = file_start(&device.join("config")).unwrap_or_default();
    let capability = capability(&config);
    let attribute = |name: &str| file_text(&device.join(name)).unwrap_or_default();
    let link = |speed: &str, width: &str| Some((generation(&attribute(speed))?, lanes(&attribute(width))?));
    let told = capability.as_ref().ok().map(|capability| (capability.speed, capability.lanes));
    let told = told.filter(|&(speed, lanes)| (1..=6).contains(&speed) && lanes > 0);
    let now = link("current_link_speed", "current_link_width").or(told);
    let Some((generation, lanes)) = now else {
        return Err(match &capability {
            Ok(_) => "the device does not say: no link at present".into(),
            Err(why) => format!("sysfs does not say, and {why}"),
        });
    };
    let (generation_max, lanes_max) = link("max_link_speed", "max_link_width").unzip();
    let missed = missed(&capability);
    let capability = capability.ok();
    let link = PcieLink {
        generation,
        lanes,
        generation_max,
        lanes_max,
        mps_bytes: capability.and_then(|capability| capability.mps_bytes),
        mrrs_bytes: capability.and_then(|capability| capability.mrrs_bytes),
        rcb_bytes: capability.map(|capability| capability.rcb_bytes),
        tags: capability.map(|capability| capability.tags),
    };
    Ok((link, missed))
}

/// Returns the values that the capability lacks, and the reasons.
fn missed(capability: &Result<Capability, String>) -> Missed {
    let sizes = match capability {
        Err(why) => return vec![("MPS, MRRS, RCB, tags", why.clone())],
        Ok(capability) => [("MPS", capability.mps_bytes), ("MRRS", capability.mrrs_bytes)],
    };
    let reserved = sizes.into_iter().filter(|(_, size)| size.is_none());
    reserved.map(|(what, _)| (what, "the configuration space has a reserved value".into())).collect()
}

/// Parses `8.0 GT/s PCIe`.
fn generation(text: &str) -> Option<u32> {
    let speeds = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
    let speed = text.split_whitespace().next()?;
    // Some kernels leave out the decimals.
    let is = |known: &str| known == speed || known.strip_suffix(".0") == Some(speed);
    (1..).zip(speeds).find(|(_, known)| is(known)).map(|(generation, _)| generation)
}

/// Parses a number of lanes. While there is no link, sysfs has 0 or 255.
fn lanes(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|lanes| (1..=32).contains(lanes))
}

fn word(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]))
}

/// Returns a size of 128 bytes and up, by its code of three bits; the last two codes are reserved.
fn size(code: u16) -> Option<u32> {
    Some(code & 7).filter(|&code| code <= 5).map(|code| 128 << code)
}

/// Finds and reads the PCI Express capability.
fn capability(config: &[u8]) -> Result<Capability, String> {
    if config.is_empty() {
        return Err("the configuration space cannot be read".into());
    }
    let has_list = word(config, STATUS).is_some_and(|status| status & STATUS_CAPABILITIES != 0);
    let Some(mut at) = config.get(CAPABILITIES).map(|&at| usize::from(at & !3)).filter(|_| has_list) else {
        return Err("the configuration space lists no capabilities".into());
    };
    if config.len() <= HEADER_BYTES {
        return Err("only root may read the configuration space beyond its first 64 bytes".into());
    }
    // A list of capabilities has at most 48 entries of 4 bytes; a loop in it is invalid.
    for _ in 0..48 {
        if at < HEADER_BYTES {
            break;
        }
        match config.get(at) {
            Some(&PCI_EXPRESS) => {
                return read_capability(config, at)
                    .ok_or_else(|| "the configuration space is cut off".into());
            }
            Some(_) => at = usize::from(config.get(at + 1).copied().unwrap_or(0) & !3),
            None => return Err("the configuration space is cut off".into()),
        }
    }
    Err("the device has no PCI Express capability".into())
}

fn read_capability(config: &[u8], at: usize) -> Option<Capability> {
    let control = word(config, at + DEVICE_CONTROL)?;
    let link_control = word(config, at + LINK_CONTROL)?;
    let status = word(config, at + LINK_STATUS)?;
    // Version 1 of the capability has no second control register.
    let has_second = word(config, at + 2).is_some_and(|flags| flags & 0xf >= 2);
    let second = if has_second { word(config, at + DEVICE_CONTROL_2).unwrap_or(0) } else { 0 };
    let (ten_bit, extended) = (second >> 12 & 1 == 1, control >> 8 & 1 == 1);
    Some(Capability {
        speed: u32::from(status & 0xf),
        lanes: u32::from(status >> 4 & 0x3f),
        mps_bytes: size(control >> 5),
        mrrs_bytes: size(control >> 12),
        rcb_bytes: if link_control >> 3 & 1 == 1 { 128 } else { 64 },
        tags: if ten_bit {
            768
        } else if extended {
            256
        } else {
            32
        },
    })
}
