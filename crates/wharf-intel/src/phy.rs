//! The PHY, by the register `MDIC`: 8254x manual, section 13.4.13; 82576 datasheet, section 8.2.4.

use super::bus::Bus;
use super::registers::{MDIC, STATUS, STATUS_LU};
use std::time::Duration;

/// Address of the PHY inside the adapter.
const ADDRESS: u32 = 1 << 21;
const WRITE: u32 = 1 << 26;
const READ: u32 = 2 << 26;
const READY: u32 = 1 << 28;
const ERROR: u32 = 1 << 30;
/// The control register (`BMCR` of IEEE 802.3, clause 22): restart of the negotiation, power down, negotiation.
const CONTROL: u32 = 0;
const RESTART: u16 = 1 << 9;
const POWER_DOWN: u16 = 1 << 11;
const NEGOTIATE: u16 = 1 << 12;
/// Looks at an access under way: it takes 64 µs (8254x manual, the same section).
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_micros(50);

fn access(bus: &impl Bus, command: u32) -> Option<u16> {
    bus.write(MDIC, ADDRESS | command);
    for _ in 0..LOOKS {
        let answer = bus.read(MDIC);
        if answer & READY != 0 {
            return (answer & ERROR == 0).then_some(answer as u16);
        }
        bus.pause(BETWEEN);
    }
    None
}

/// Switches the PHY on, which the kernel's drivers switch off as they leave, and begins the negotiation of speed if the
/// link is down.
pub(crate) fn wake(bus: &impl Bus) {
    let Some(control) = access(bus, READ | CONTROL << 16) else { return };
    let is_up = bus.read(STATUS) & STATUS_LU != 0;
    if control & POWER_DOWN != 0 || control & NEGOTIATE == 0 || !is_up {
        let control = control & !POWER_DOWN | NEGOTIATE | RESTART;
        access(bus, WRITE | CONTROL << 16 | u32::from(control));
    }
}
