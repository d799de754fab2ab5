//! Devices by specification: `KIND:WHERE[,key=value]...`.
//!
//! `null` and `wire` have no WHERE: their keys follow the colon at once, `wire:rate=10gbit,delay=1ms`. A comma
//! that belongs to a file's name is written `\,`.

mod interfaces;

use crate::kinds::BUILT;
use crate::null::Null;
use crate::pcap::format::{ByteOrder, PcapOptions, Resolution};
use crate::pcap::{PcapSink, PcapSource, Snapped};
use crate::units::{self, UnitError};
use crate::wire::{DELAY_MAX, WireSpec, wire};
use std::path::Path;
use std::time::Duration;
use wharf_core::device::{Device, DeviceError};

/// What a device is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To send.
    Send,
    /// To receive.
    Receive,
    /// Both ways.
    Both,
}

/// A device, opened.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Its receive side, where that is a device of its own: of one opened both ways. Else `device` receives as well.
    pub receiving: Option<Box<dyn Device>>,
    /// The other end, where that is in this process: a wire's.
    pub far_end: Option<Box<dyn Device>>,
    /// How long a frame that has left is under way to the other end: a wire's delay.
    pub delay: Duration,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let far_end = self.far_end.as_ref().map(|far_end| far_end.name());
        f.debug_struct("Opened").field("device", &self.device.name()).field("far_end", &far_end).finish()
    }
}

impl Opened {
    fn boxed(device: Box<dyn Device>) -> Self {
        Self { device, receiving: None, far_end: None, delay: Duration::ZERO }
    }

    fn alone(device: impl Device + 'static) -> Self {
        Self::boxed(Box::new(device))
    }
}

/// Opens the device that `spec` describes.
///
/// # Errors
/// [`DeviceError::Unsupported`] for a specification that is none, saying what is allowed, and what the device
/// itself meets as it opens.
pub fn open(spec: &str, direction: Direction) -> Result<Opened, DeviceError> {
    let one = open_queues(spec, direction, Queues::default())?.pop();
    one.ok_or_else(|| DeviceError::Unsupported { device: spec.into(), what: "no queue".into() })
}

/// How many queues of a device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// So many; at least one.
    pub count: u32,
    /// How many devices are going to receive into one pool.
    pub pool_shared_by: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Self { count: 1, pool_shared_by: 1 }
    }
}

impl Queues {
    /// How many devices [`open_queues`] opens for `spec`.
    pub fn devices_of(self, spec: &str) -> usize {
        match kind_and_rest(spec).0 {
            "null" | "packet" | "xdp" | "tap" => self.count.max(1) as usize,
            _ => 1,
        }
    }
}

/// Opens several queues of the device that `spec` describes: a device for each queue of `packet`, `xdp` (from the one on that it
/// names), `tap` and `null`; one with so many pairs of them of `vhost-user` and `virtio-user`, unless it says itself how many; one of
/// the other kinds, which have one queue.
///
/// # Errors
/// As [`open`].
pub fn open_queues(spec: &str, direction: Direction, queues: Queues) -> Result<Vec<Opened>, DeviceError> {
    let (kind, rest) = kind_and_rest(spec);
    let parts = rest.map_or(Vec::new(), split);
    let count = queues.devices_of(spec);
    let one = match kind {
        "null" => return (0..count).map(|_| open_null(&parts)).collect(),
        "packet" => return interfaces::packet(&parts, direction, count),
        "xdp" => return interfaces::xdp(&parts, direction, queues),
        "tap" => return interfaces::tap(&parts, count),
        "wire" => open_wire(&parts),
        "pcap" => open_pcap(&parts, direction),
        "udp" => Ok(Opened::alone(crate::udp::spec::open(&parts, direction)?)),
        "virtio-user" => Ok(Opened::boxed(crate::virtio_user::spec::open(&parts, queues.count)?)),
        "vhost-user" => Ok(Opened::alone(crate::vhost_user::spec::open(&parts, queues.count)?)),
        _ => Err(unknown(spec, kind)),
    };
    Ok(vec![one?])
}

fn kind_and_rest(spec: &str) -> (&str, Option<&str>) {
    match spec.find([':', ',']) {
        Some(at) => (&spec[..at], Some(&spec[at + 1..])),
        None => (spec, None),
    }
}

fn unknown(spec: &str, kind: &str) -> DeviceError {
    let planned = crate::kinds::PLANNED.contains(&kind);
    let why = if planned { "not built yet" } else { "unknown kind of device" };
    let device = format!("\"{}\"", spec.escape_debug());
    DeviceError::Unsupported { device, what: format!("{why}; there are {}", BUILT.join(", ")) }
}

fn open_null(parts: &[String]) -> Result<Opened, DeviceError> {
    Options::new("null", parts, &[])?;
    Ok(Opened::alone(Null::default()))
}

fn open_wire(parts: &[String]) -> Result<Opened, DeviceError> {
    let options = Options::new("wire", parts, &["rate", "delay", "ring", "overhead"])?;
    let mut spec = WireSpec::default();
    if let Some(rate) = options.read("rate", units::bits_per_second)? {
        if rate == 0 {
            return Err(options.fault("rate: 0 would never send; leave the key out for no bound"));
        }
        spec = spec.rate(rate);
    }
    let delay = options.read("delay", units::duration)?.unwrap_or_default();
    if delay > DELAY_MAX {
        return Err(options.fault(&format!("delay: {delay:?} is beyond {DELAY_MAX:?}")));
    }
    spec = spec.delay(delay);
    if let Some(frames) = options.read("ring", units::size_bytes)? {
        spec = spec.ring(u32::try_from(frames).unwrap_or(u32::MAX))?;
    }
    if let Some(bytes) = options.read("overhead", units::size_bytes)? {
        match u32::try_from(bytes) {
            Ok(bytes) if bytes <= 65536 => spec = spec.overhead(bytes),
            _ => return Err(options.fault(&format!("overhead: {bytes} is beyond 65536 bytes"))),
        }
    }
    let (device, far_end) = wire(&spec);
    Ok(Opened { far_end: Some(Box::new(far_end)), delay, ..Opened::alone(device) })
}

fn open_pcap(parts: &[String], direction: Direction) -> Result<Opened, DeviceError> {
    let Some((file, parts)) = parts.split_first().filter(|(file, _)| !file.is_empty()) else {
        let what = "which file? pcap:FILE".into();
        return Err(DeviceError::Unsupported { device: "pcap".into(), what });
    };
    let (kind, path) = (format!("pcap:{file}"), Path::new(file));
    match direction {
        Direction::Send => {
            let options = Options::new(&kind, parts, &["resolution", "order"])?;
            let nanoseconds = [("ns", Resolution::Nanoseconds), ("us", Resolution::Microseconds)];
            let resolution = options.choose("resolution", &nanoseconds)?;
            let byte_order = options.choose("order", &[("le", ByteOrder::Little), ("be", ByteOrder::Big)])?;
            let options = PcapOptions { resolution, byte_order, ..PcapOptions::default() };
            Ok(Opened::alone(PcapSink::create(path, options)?))
        }
        Direction::Receive => {
            let options = Options::new(&kind, parts, &["snapped"])?;
            let ways = [("refuse", Snapped::Refuse), ("pad", Snapped::Pad), ("send", Snapped::Send)];
            Ok(Opened::alone(PcapSource::open(path, options.choose("snapped", &ways)?)?))
        }
        Direction::Both => {
            let what = "a capture is read or written, not both at once".into();
            Err(DeviceError::Unsupported { device: kind, what })
        }
    }
}

/// Splits at commas, except those after a backslash, which goes.
pub fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            ('\\', Some(part)) if chars.peek() == Some(&',') => part.extend(chars.next()),
            (',', _) => parts.push(String::new()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
}

/// The `key=value`s of a specification.
pub struct Options<'a> {
    device: String,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Reads `parts`, each of which is one of `keys`, given once, and its value.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] that lists `keys`.
    pub fn new(device: &str, parts: &'a [String], keys: &[&str]) -> Result<Self, DeviceError> {
        let mut options = Self { device: device.into(), pairs: Vec::new() };
        let allowed = match keys {
            [] => "it takes none".to_string(),
            keys => format!("its keys are {}", keys.join(", ")),
        };
        for part in parts.iter().filter(|part| !part.is_empty() || parts.len() > 1) {
            let shown = part.escape_debug();
            let Some((key, value)) = part.split_once('=') else {
                return Err(options.fault(&format!("\"{shown}\" is no key=value; {allowed}")));
            };
            if !keys.contains(&key) {
                return Err(options.fault(&format!("unknown key \"{}\"; {allowed}", key.escape_debug())));
            }
            if options.get(key).is_some() {
                return Err(options.fault(&format!("{key} is given twice")));
            }
            options.pairs.push((key, value));
        }
        Ok(options)
    }

    /// Returns the value of `key` as it was written.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
    }

    /// Reads the value of `key` with `read`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] that says what `read` wants.
    pub fn read<T>(
        &self, key: &str, read: fn(&str) -> Result<T, UnitError>,
    ) -> Result<Option<T>, DeviceError> {
        let value = self.get(key).map(read).transpose();
        value.map_err(|error| self.fault(&format!("{key}: {error}")))
    }

    /// Returns the way named by `key`, or the first of `ways` if it is not given.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] that lists `ways`.
    pub fn choose<T: Copy>(&self, key: &str, ways: &[(&str, T)]) -> Result<T, DeviceError> {
        let value = self.get(key).unwrap_or(ways[0].0);
        match ways.iter().find(|way| way.0 == value) {
            Some(way) => Ok(way.1),
            None => {
                let names: Vec<&str> = ways.iter().map(|way| way.0).collect();
                let value = value.escape_debug();
                Err(self.fault(&format!("{key}: \"{value}\" is none of {}", names.join(", "))))
            }
        }
    }

    /// Makes the error that says `what` of this device.
    pub fn fault(&self, what: &str) -> DeviceError {
        DeviceError::Unsupported { device: self.device.clone(), what: what.into() }
    }
}

#[cfg(test)]
mod tests;
