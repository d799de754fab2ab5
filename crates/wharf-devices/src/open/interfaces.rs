//! Devices on interfaces of the host, one for each of their queues that is asked for.

use super::{Direction, Opened, Options, Queues};
use crate::packet::{self, PacketReceiver, PacketSender, SendOptions, SuperPackets};
use crate::tap::{Tap, TapOptions};
use crate::units;
use crate::xdp::{self, Mode, XdpBoth, XdpOptions, XdpReceiver, XdpSender};
use wharf_core::device::DeviceError;

/// `packet:INTERFACE`: a socket for each queue, and each way.
pub(super) fn packet(
    parts: &[String], direction: Direction, count: usize,
) -> Result<Vec<Opened>, DeviceError> {
    let (interface, kind, parts) = named("packet", parts)?;
    let (to_send, to_receive): (&[&str], &[&str]) = (&["bypass", "ring"], &["gso", "buffer", "promisc"]);
    match direction {
        Direction::Send => {
            let spec = packet_to_send(&Options::new(&kind, parts, to_send)?)?;
            (0..count).map(|_| Ok(Opened::alone(PacketSender::open(interface, spec)?))).collect()
        }
        Direction::Receive => {
            let spec = packet_to_receive(&Options::new(&kind, parts, to_receive)?)?;
            Ok(packet_receivers(interface, spec, count)?.into_iter().map(Opened::alone).collect())
        }
        Direction::Both => {
            let options = Options::new(&kind, parts, &[to_send, to_receive].concat())?;
            let spec = packet_to_send(&options)?;
            let receivers = packet_receivers(interface, packet_to_receive(&options)?, count)?;
            let both = |receiver| {
                let sender = PacketSender::open(interface, spec)?;
                Ok(Opened { receiving: Some(Box::new(receiver)), ..Opened::alone(sender) })
            };
            receivers.into_iter().map(both).collect()
        }
    }
}

fn packet_receivers(
    interface: &str, options: packet::ReceiveOptions, count: usize,
) -> Result<Vec<PacketReceiver>, DeviceError> {
    match count {
        1 => Ok(vec![PacketReceiver::open(interface, options)?]),
        _ => PacketReceiver::open_queues(interface, options, count),
    }
}

fn packet_to_send(options: &Options<'_>) -> Result<SendOptions, DeviceError> {
    let bypass = options.choose("bypass", &[("off", false), ("on", true)])?;
    let mut spec = SendOptions { bypass, ..SendOptions::default() };
    if let Some(frames) = options.read("ring", units::size_bytes)? {
        spec.ring_frames = match u32::try_from(frames) {
            Ok(frames @ 1..=65536) => frames,
            _ => return Err(options.fault(&format!("ring: {frames} cannot be: 1 to 65536 frames"))),
        };
    }
    Ok(spec)
}

fn packet_to_receive(options: &Options<'_>) -> Result<packet::ReceiveOptions, DeviceError> {
    let super_packets = options.choose("gso", &[("cut", SuperPackets::Cut), ("keep", SuperPackets::Keep)])?;
    let promiscuous = options.choose("promisc", &[("on", true), ("off", false)])?;
    let mut spec = packet::ReceiveOptions { super_packets, promiscuous, ..Default::default() };
    if let Some(bytes) = options.read("buffer", units::size_bytes)? {
        if !(256 << 10..=1 << 30).contains(&bytes) {
            return Err(options.fault(&format!("buffer: {bytes} cannot be: 256k to 1g bytes")));
        }
        spec.buffer_bytes = bytes;
    }
    Ok(spec)
}

/// `xdp:INTERFACE`: a socket for each queue, from the one on that is named.
pub(super) fn xdp(
    parts: &[String], direction: Direction, queues: Queues,
) -> Result<Vec<Opened>, DeviceError> {
    let (interface, kind, parts) = named("xdp", parts)?;
    let keys: &[&str] = match direction {
        Direction::Send => &["queue", "mode"],
        Direction::Receive | Direction::Both => &["queue", "mode", "csum"],
    };
    let options = Options::new(&kind, parts, keys)?;
    let modes = [("auto", Mode::Auto), ("copy", Mode::Copy), ("zerocopy", Mode::ZeroCopy)];
    let mut spec = XdpOptions { mode: options.choose("mode", &modes)?, ..XdpOptions::default() };
    if let Some(queue) = options.read("queue", units::size_bytes)? {
        spec.queue = match u32::try_from(queue) {
            Ok(queue @ 0..=65535) => queue,
            _ => return Err(options.fault(&format!("queue: {queue} cannot be: 0 to 65535"))),
        };
    }
    let count = queues.count.max(1);
    if direction == Direction::Send {
        let one = |at| XdpOptions { queue: spec.queue + at, ..spec };
        return (0..count).map(|at| Ok(Opened::alone(XdpSender::open(interface, one(at))?))).collect();
    }
    let fills = options.choose("csum", &[("fill", true), ("off", false)])?;
    let fill_checksums = options.get("csum").map(|_| fills);
    let spec = xdp::ReceiveOptions { common: spec, fill_checksums, pool_shared_by: queues.pool_shared_by };
    Ok(match direction {
        Direction::Both => {
            XdpBoth::open_queues(interface, spec, count)?.into_iter().map(Opened::alone).collect()
        }
        _ => XdpReceiver::open_queues(interface, spec, count)?.into_iter().map(Opened::alone).collect(),
    })
}

/// `tap:NAME`: a file for each queue, both ways, whatever for.
pub(super) fn tap(parts: &[String], count: usize) -> Result<Vec<Opened>, DeviceError> {
    let (name, kind, parts) = named("tap", parts)?;
    let options =
        Options::new(&kind, parts, &["multi_queue", "offload", "persist", "mtu", "ring", "sndbuf"])?;
    let number = |key: &str, least: u32, most: u32| {
        options.read(key, units::size_bytes)?.map_or(Ok(None), |number| match u32::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(options.fault(&format!("{key}: {number} cannot be: {least} to {most}"))),
        })
    };
    let multi_queue = options.choose("multi_queue", &[("off", false), ("on", true)])?;
    if count > 1 && !multi_queue && options.get("multi_queue").is_some() {
        return Err(options.fault(&format!("multi_queue: off has one queue, not {count}")));
    }
    let persist = options.choose("persist", &[("off", false), ("on", true)])?;
    let spec = TapOptions {
        multi_queue,
        offload: options.choose("offload", &[("on", true), ("off", false)])?,
        persist: options.get("persist").map(|_| persist),
        mtu_bytes: number("mtu", 68, 65521)?,
        ring_frames: number("ring", 1, 65536)?,
        send_buffer_bytes: number("sndbuf", 1, i32::MAX as u32)?,
    };
    match count {
        1 => Ok(vec![Opened::alone(Tap::open(name, spec)?)]),
        _ => Ok(Tap::open_queues(name, spec, count)?.into_iter().map(Opened::alone).collect()),
    }
}

/// The interface that a specification names, it and its kind, and what is behind it.
fn named<'a>(kind: &str, parts: &'a [String]) -> Result<(&'a str, String, &'a [String]), DeviceError> {
    match parts.split_first().filter(|(name, _)| !name.is_empty()) {
        Some((name, parts)) => Ok((name, format!("{kind}:{}", name.escape_debug()), parts)),
        None => {
            let place = if kind == "tap" { "NAME" } else { "INTERFACE" };
            let what = format!("which interface? {kind}:{place}");
            Err(DeviceError::Unsupported { device: kind.into(), what })
        }
    }
}
