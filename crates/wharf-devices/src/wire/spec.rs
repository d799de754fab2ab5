//! `wire[:rate=10gbit,delay=1ms,ring=1024,overhead=24]`.

use super::{DELAY_MAX, WireSpec, wire};
use crate::host::ExactClock;
use crate::spec::{Can, DeviceSpec, Kind, Opened, Opening};
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::host::Clock;
use wharf_core::options::{Key, Values};

/// The kind of device.
pub(crate) static KIND: Kind = Kind {
    keys: &[
        Key {
            name: "rate",
            values: Values::BitRate,
            default: "none",
            meaning: "Bits per second in each direction",
            when: "Set it to model a line: without it, the two threads are the bound",
        },
        Key::time("delay", DELAY_MAX, "0", "Time that a frame takes to the other end")
            .when("Set it to model a long line"),
        Key::number(
            "ring",
            0..=u64::MAX,
            "a power of two from 2 to 65536",
            "1024",
            "Frames that an end can have under way",
        )
        .when("Lower, to bound what waits in the device; at least rate times delay"),
        Key::number(
            "overhead",
            0..=65536,
            "0 to 65536 bytes",
            "24",
            "Bytes by which each frame is longer on the line: preamble, check sequence and gap",
        )
        .when("0, to count the bytes of frames alone"),
    ],
    can: Can { far_end: true, stays_inside: true, ignores_addresses: true, ..Can::BOTH },
    ..Kind::new(
        "wire",
        "wire[:rate=10gbit,delay=1ms,ring=1024,overhead=24]",
        "two ends in one process, lossless",
        open,
    )
};

fn open(spec: &DeviceSpec, _: Opening) -> Result<Vec<Opened>, DeviceError> {
    open_by(spec, Arc::new(ExactClock))
}

/// Opens the wire that `spec` describes, whose rate and delay are by `clock`.
#[doc(hidden)]
pub fn open_by(spec: &DeviceSpec, clock: Arc<dyn Clock>) -> Result<Vec<Opened>, DeviceError> {
    let mut wanted = WireSpec::default().clock(clock);
    match spec.options().number("rate") {
        Some(0) => return Err(spec.fault("rate: 0 would never send; leave the key out for no bound")),
        Some(rate) => wanted = wanted.rate(rate),
        None => {}
    }
    let delay = spec.options().time("delay").unwrap_or_default();
    wanted = wanted.delay(delay);
    if let Some(frames) = spec.options().number("ring") {
        wanted = wanted.ring(u32::try_from(frames).unwrap_or(u32::MAX))?;
    }
    if let Some(bytes) = spec.number("overhead") {
        wanted = wanted.overhead(bytes);
    }
    let (device, far_end) = wire(&wanted);
    Ok(vec![Opened { delay, ..Opened::duplex(device).with_far_end(far_end) }])
}
