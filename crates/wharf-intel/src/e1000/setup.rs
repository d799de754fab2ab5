//! Registers of this family, and the order in which they are written: sections 14.3 to 14.5.

use crate::bus::Bus;
use crate::family::RingRegisters;
use crate::options::PortOptions;
use crate::phy;
use crate::registers::*;
use std::time::Duration;

/// Interrupt causes, as read; set and cleared in the mask.
pub(super) const ICR: u32 = 0x00c0;
pub(super) const IMS: u32 = 0x00d0;
pub(super) const IMC: u32 = 0x00d8;
/// Least time between two interrupts, in steps of 256 ns (section 13.4.18).
const ITR: u32 = 0x00c4;
/// Gaps between frames (section 13.4.34).
const TIPG: u32 = 0x0410;
/// Delay of receive interrupts, and thresholds of the rings.
const RDTR: u32 = 0x2820;
const RXDCTL: u32 = 0x2828;
const TXDCTL: u32 = 0x3828;

pub(super) const TX_RING: RingRegisters = RingRegisters { base: 0x3800, head: 0x3810, tail: 0x3818 };
pub(super) const RX_RING: RingRegisters = RingRegisters { base: 0x2800, head: 0x2810, tail: 0x2818 };

/// A frame was sent and reported, the link has changed, few buffers are left, none was left, a frame has arrived
/// (section 13.4.17).
pub(super) const CAUSES: u32 = 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7;

/// 20 000 interrupts a second, at most.
const ITR_20K: u32 = itr(50_000);
/// Gaps for a copper wire: 10, 8 and 6.
const TIPG_COPPER: u32 = 10 | 8 << 10 | 6 << 20;
/// Time that DMA under way may take to end, and a reset.
const SETTLES: Duration = Duration::from_millis(10);

/// Ends all traffic and interrupts, and resets the adapter (section 14.3). An adapter that does not clear its registers
/// as it is reset has them cleared here.
pub(super) fn reset(bus: &impl Bus) {
    bus.write(IMC, u32::MAX);
    stop(bus);
    // All ones are read of an adapter that is gone.
    bus.write(CTRL, bus.read(CTRL) | CTRL_RST);
    bus.pause(SETTLES);
    bus.write(IMC, u32::MAX);
    bus.read(ICR);
}

/// Ends all traffic: the adapter ends what is under way first.
pub(super) fn stop(bus: &impl Bus) {
    bus.write(RCTL, 0);
    bus.write(TCTL, TCTL_PSP);
    bus.read(STATUS);
    bus.pause(SETTLES);
}

/// Sets the adapter up, without traffic.
pub(super) fn start(bus: &impl Bus) {
    // Section 14.3: the link by negotiation, no VLAN tags taken out, no flow control.
    let cleared = CTRL_LRST | CTRL_ILOS | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME | CTRL_RST | CTRL_PHY_RST;
    bus.write(CTRL, bus.read(CTRL) & !cleared | CTRL_ASDE | CTRL_SLU | CTRL_FD);
    FLOW_CONTROL.iter().for_each(|&at| bus.write(at, 0));
    // Section 14.4: an empty table of multicast addresses. Checksums are looked at by programs.
    (0..128).for_each(|at| bus.write(MTA + 4 * at, 0));
    bus.write(RXCSUM, 0);
    bus.write(RDTR, 0);
    bus.write(ITR, ITR_20K);
    phy::wake(bus);
}

const fn itr(interval_ns: u32) -> u32 {
    interval_ns / 256
}

/// Sets the least time between two interrupts.
pub(super) fn throttle(bus: &impl Bus, interval_ns: u32) {
    bus.write(ITR, itr(interval_ns));
}

/// Begins to send (section 14.5). With thresholds of 0 a report is written at once (section 3.4.1.3).
pub(super) fn start_tx(bus: &impl Bus) {
    bus.write(TXDCTL, 0);
    bus.write(TIPG, TIPG_COPPER);
    bus.write(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS);
}

/// Begins to receive (section 14.4).
pub(super) fn start_rx(bus: &impl Bus, buffer_bytes: u32, options: &PortOptions) {
    bus.write(RXDCTL, 0);
    let promiscuous = if options.promiscuous { RCTL_UPE | RCTL_MPE } else { RCTL_MPE };
    let long = if options.has_long_frames() { RCTL_LPE } else { 0 };
    bus.write(RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC | promiscuous | long | buffer_bits(buffer_bytes));
}

/// Returns `BSIZE` and `BSEX` of `RCTL` (section 13.4.22).
fn buffer_bits(bytes: u32) -> u32 {
    const BSEX: u32 = 1 << 25;
    match bytes {
        256 => 3 << 16,
        512 => 2 << 16,
        1024 => 1 << 16,
        4096 => 3 << 16 | BSEX,
        8192 => 2 << 16 | BSEX,
        16384 => 1 << 16 | BSEX,
        _ => 0,
    }
}
