//! Registers of this family, and the order in which they are written: sections 14.3 to 14.5.

use super::E1000;
use crate::bus::Bus;
use crate::family::{Registers, RingRegisters};
use crate::options::PortOptions;
use crate::phy;
use crate::registers::*;
use std::time::Duration;

/// Interrupt causes, as read; set and cleared in the mask.
const ICR: u32 = 0x00c0;
const IMS: u32 = 0x00d0;
const IMC: u32 = 0x00d8;
/// Least time between two interrupts, in steps of 256 ns (section 13.4.18).
const ITR: u32 = 0x00c4;
/// Gaps between frames (section 13.4.34).
const TIPG: u32 = 0x0410;
/// Delay of receive interrupts, and thresholds of the rings.
const RDTR: u32 = 0x2820;
const RXDCTL: u32 = 0x2828;
const TXDCTL: u32 = 0x3828;

/// Causes that the driver handles: a frame was sent, the link changed, few receive buffers are left, none was
/// left, a frame arrived (section 13.4.17).
const CAUSES: u32 = 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7;

/// 20 000 interrupts a second, at most.
const ITR_20K: u32 = itr(50_000);
/// Gaps for a copper wire: 10, 8 and 6.
const TIPG_COPPER: u32 = 10 | 8 << 10 | 6 << 20;
/// Time that DMA under way may take to end, and a reset.
const SETTLES: Duration = Duration::from_millis(10);

const fn itr(interval_ns: u32) -> u32 {
    interval_ns / 256
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

impl Registers for E1000 {
    fn tx_ring(_queue: u32) -> RingRegisters {
        RingRegisters { base: 0x3800, head: 0x3810, tail: 0x3818 }
    }

    fn rx_ring(_queue: u32) -> RingRegisters {
        RingRegisters { base: 0x2800, head: 0x2810, tail: 0x2818 }
    }

    /// Ends all traffic and interrupts, and resets the adapter (section 14.3). Clears the registers of an adapter
    /// whose reset leaves them.
    fn reset(bus: &impl Bus) {
        bus.write(IMC, u32::MAX);
        Self::stop_queue(bus, 0);
        // All ones are read of an adapter that is gone.
        bus.write(CTRL, bus.read(CTRL) | CTRL_RST);
        bus.pause(SETTLES);
        bus.write(IMC, u32::MAX);
        bus.read(ICR);
    }

    /// Sets the adapter up. No frame moves yet.
    fn start(bus: &impl Bus, _queues: u32) {
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

    /// Begins to send (section 14.5). With thresholds of 0 a report is written at once (section 3.4.1.3).
    fn start_tx(bus: &impl Bus, _queue: u32) {
        bus.write(TXDCTL, 0);
        bus.write(TIPG, TIPG_COPPER);
        bus.write(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS);
    }

    /// Begins to receive (section 14.4).
    fn start_rx(bus: &impl Bus, _queue: u32, buffer_bytes: u32, options: &PortOptions) {
        bus.write(RXDCTL, 0);
        let promiscuous = if options.promiscuous { RCTL_UPE | RCTL_MPE } else { RCTL_MPE };
        let long = if options.has_long_frames() { RCTL_LPE } else { 0 };
        bus.write(RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC | promiscuous | long | buffer_bits(buffer_bytes));
    }

    /// Ends all traffic. The adapter completes transfers under way first.
    fn stop_queue(bus: &impl Bus, _queue: u32) -> bool {
        bus.write(RCTL, 0);
        bus.write(TCTL, TCTL_PSP);
        bus.read(STATUS);
        bus.pause(SETTLES);
        true
    }

    /// Sets the least time between two interrupts.
    fn throttle(bus: &impl Bus, _queue: u32, interval_ns: u32) {
        bus.write(ITR, itr(interval_ns));
    }

    fn unmask(bus: &impl Bus, _queue: u32) {
        bus.write(IMS, CAUSES);
    }

    fn mask(bus: &impl Bus, _queue: u32) {
        bus.write(IMC, u32::MAX);
    }

    /// Reads the causes, which clears them (section 13.4.17): the line is released.
    fn acknowledge(bus: &impl Bus, _queue: u32) {
        bus.read(ICR);
    }

    /// Returns 0: the one queue has the adapter's own registers.
    fn missed(_bus: &impl Bus, _queue: u32) -> u64 {
        0
    }
}
