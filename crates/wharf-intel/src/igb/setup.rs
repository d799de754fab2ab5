//! Registers of this family, and the order in which they are written: section 4.5.

use super::Igb;
use crate::bus::Bus;
use crate::family::{Registers, RingRegisters};
use crate::options::PortOptions;
use crate::phy;
use crate::registers::*;
use std::time::Duration;

/// Further device control: the driver is there (section 8.2.3).
const CTRL_EXT: u32 = 0x0018;
const DRV_LOAD: u32 = 1 << 28;
/// Legacy interrupts' mask.
const IMC: u32 = 0x150c;
/// Mode of interrupts, and those of vectors: mask, clear, cleared by the message, masked by it (section 8.8).
const GPIE: u32 = 0x1514;
const EIMS: u32 = 0x1524;
const EIMC: u32 = 0x1528;
const EIAC: u32 = 0x152c;
const EIAM: u32 = 0x1530;
/// Least time between two interrupts of a vector, and the vectors of queues.
const EITR: u32 = 0x1680;
const IVAR: u32 = 0x1700;
/// Longest frame that is received (section 8.10.18).
const RLPML: u32 = 0x5004;
/// Hash, its table and its key (sections 8.10.14 to 8.10.16).
const MRQC: u32 = 0x5818;
const RETA: u32 = 0x5c00;
const RSSRK: u32 = 0x5c80;
/// The function's own EEPROM has been read (section 8.3.1, EECD).
const EECD: u32 = 0x0010;
const AUTO_RD: u32 = 1 << 9;

/// Multiple vectors, non-selective clearing, masks by message, pending bits cleared (section 8.8.13).
const GPIE_MSIX: u32 = 1 | 1 << 4 | 1 << 30 | 1 << 31;
/// An entry of `IVAR` counts.
const IVAR_VALID: u32 = 1 << 7;
/// 20 000 interrupts a second, at most: microseconds in bits 2 to 14 (section 8.8.14).
const EITR_20K: u32 = eitr(50_000);
/// The counter under way goes on.
const EITR_CNT_INGR: u32 = 1 << 31;
/// Hashing to several queues, of IPv4 and IPv6, alone and with TCP and UDP.
const MRQC_RSS: u32 = 2 | 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23;
/// The hash takes the place of the checksum in descriptors.
const RXCSUM_PCSD: u32 = 1 << 13;
/// Advanced descriptors of one buffer, and the drop of frames for a queue without buffers, so that it does not hold up
/// the others.
const SRRCTL_ADVANCED: u32 = 1 << 25;
const SRRCTL_DROP_EN: u32 = 1 << 31;
/// A queue is enabled, in `TXDCTL` and `RXDCTL`.
const ENABLE: u32 = 1 << 25;
/// Thresholds: descriptors are fetched when the adapter has 8 or fewer; received ones are written back one by one.
const RX_THRESHOLDS: u32 = 8 | 8 << 8 | 1 << 16;
const TX_THRESHOLDS: u32 = 8 | 1 << 8;
/// Time that DMA under way may take to end, and a reset.
const SETTLES: Duration = Duration::from_millis(10);
const NAP: Duration = Duration::from_millis(1);
const LOOKS: u32 = 20;

const fn eitr(interval_ns: u32) -> u32 {
    (interval_ns / 1000) << 2
}

const fn tx(queue: u32, at: u32) -> u32 {
    0xe000 + 0x40 * queue + at
}

const fn rx(queue: u32, at: u32) -> u32 {
    0xc000 + 0x40 * queue + at
}

/// `TXDCTL`, `RXDCTL` and `SRRCTL` of a queue.
const CONTROL: u32 = 0x28;
const SRRCTL: u32 = 0x0c;
/// Frames that a queue without buffers has dropped, 12 bits that a read clears (`igb_update_stats` of Linux).
const RQDPC: u32 = 0x30;
const RQDPC_COUNT: u32 = 0xfff;
/// No more DMA is begun, and DMA is under way (sections 8.2.1 and 8.2.2).
const CTRL_MASTER_DISABLE: u32 = 1 << 2;
const STATUS_MASTER_ENABLE: u32 = 1 << 19;

/// Waits, for a while, until the bits `wanted` of a register are set, or clear. Returns true if so.
fn comes(bus: &impl Bus, at: u32, bit: u32, is_set: bool) -> bool {
    for _ in 0..LOOKS {
        if (bus.read(at) & bit != 0) == is_set {
            return true;
        }
        bus.pause(NAP);
    }
    false
}

/// Spreads what arrives over the queues.
fn spread(bus: &impl Bus, queues: u32) {
    // Any key serves, but a key with structure spreads badly.
    let mut word = 0x9e37_79b9_u32;
    for at in 0..10 {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        bus.write(RSSRK + 4 * at, word);
    }
    for at in 0..32 {
        let entry = |byte: u32| (4 * at + byte) % queues.max(1);
        bus.write(RETA + 4 * at, entry(0) | entry(1) << 8 | entry(2) << 16 | entry(3) << 24);
    }
    let (several, checksums) = if queues > 1 { (MRQC_RSS, RXCSUM_PCSD) } else { (0, 0) };
    bus.write(RXCSUM, checksums);
    bus.write(MRQC, several);
}

/// Gives each queue a vector: of the eight that fit, receive queue n and transmit queue n have bytes 0 and 1 of word n
/// (section 7.3.1.2).
fn interrupts(bus: &impl Bus, queues: u32) {
    bus.write(GPIE, GPIE_MSIX);
    for queue in 0..queues {
        let vector = queue | IVAR_VALID;
        bus.write(IVAR + 4 * queue, vector | vector << 8);
        bus.write(EITR + 4 * queue, EITR_20K);
    }
    let all = (1 << queues) - 1;
    bus.write(EIAC, all);
    bus.write(EIAM, all);
}

impl Registers for Igb {
    fn tx_ring(queue: u32) -> RingRegisters {
        RingRegisters { base: tx(queue, 0), head: tx(queue, 0x10), tail: tx(queue, 0x18) }
    }

    fn rx_ring(queue: u32) -> RingRegisters {
        RingRegisters { base: rx(queue, 0), head: rx(queue, 0x10), tail: rx(queue, 0x18) }
    }

    /// Ends all traffic and interrupts, and resets the adapter (section 4.5.3 and 4.3).
    fn reset(bus: &impl Bus) {
        bus.write(EIMC, u32::MAX);
        bus.write(IMC, u32::MAX);
        bus.write(RCTL, 0);
        bus.write(TCTL, TCTL_PSP);
        bus.read(STATUS);
        bus.pause(SETTLES);
        // A reset in the middle of DMA can leave the bus waiting (`igb_disable_pcie_master` of Linux).
        bus.write(CTRL, bus.read(CTRL) | CTRL_MASTER_DISABLE);
        comes(bus, STATUS, STATUS_MASTER_ENABLE, false);
        bus.write(CTRL, bus.read(CTRL) | CTRL_RST);
        bus.pause(SETTLES);
        comes(bus, EECD, AUTO_RD, true);
        bus.write(EIMC, u32::MAX);
        bus.write(IMC, u32::MAX);
        bus.write(CTRL_EXT, bus.read(CTRL_EXT) & !DRV_LOAD);
    }

    /// Sets the adapter up for `queues` queues, without traffic.
    fn start(bus: &impl Bus, queues: u32) {
        bus.write(CTRL_EXT, bus.read(CTRL_EXT) | DRV_LOAD);
        let cleared =
            CTRL_MASTER_DISABLE | CTRL_ILOS | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_VME | CTRL_RST | CTRL_PHY_RST;
        bus.write(CTRL, bus.read(CTRL) & !cleared | CTRL_SLU);
        FLOW_CONTROL.iter().for_each(|&at| bus.write(at, 0));
        (0..128).for_each(|at| bus.write(MTA + 4 * at, 0));
        // A reset enables the first queue, whose ring is set later (sections 8.10.10 and 8.12.15).
        for at in (0..queues).flat_map(|queue| [tx(queue, CONTROL), rx(queue, CONTROL)]) {
            bus.write(at, 0);
        }
        spread(bus, queues);
        interrupts(bus, queues);
        phy::wake(bus);
    }

    /// Begins to send (section 4.5.10).
    fn start_tx(bus: &impl Bus, queue: u32) {
        bus.write(tx(queue, CONTROL), TX_THRESHOLDS | ENABLE);
        comes(bus, tx(queue, CONTROL), ENABLE, true);
        bus.write(TCTL, TCTL_EN | TCTL_PSP | TCTL_COLLISIONS);
    }

    /// Begins to receive (section 4.5.9): the tail is moved once the queue is enabled.
    fn start_rx(bus: &impl Bus, queue: u32, buffer_bytes: u32, options: &PortOptions) {
        let drops = if options.queues > 1 { SRRCTL_DROP_EN } else { 0 };
        bus.write(rx(queue, SRRCTL), buffer_bytes >> 10 | SRRCTL_ADVANCED | drops);
        bus.write(rx(queue, CONTROL), RX_THRESHOLDS | ENABLE);
        comes(bus, rx(queue, CONTROL), ENABLE, true);
        let promiscuous = if options.promiscuous { RCTL_UPE | RCTL_MPE } else { RCTL_MPE };
        let long = if options.has_long_frames() { RCTL_LPE } else { 0 };
        bus.write(RLPML, options.mtu_bytes + 14 + 4 + 4);
        let control = RCTL_EN | RCTL_BAM | RCTL_SECRC | promiscuous | long;
        if bus.read(RCTL) != control {
            bus.write(RCTL, control);
        }
    }

    /// Ends the traffic of a queue: it has ended when the adapter says that it is not enabled any more.
    fn stop_queue(bus: &impl Bus, queue: u32) -> bool {
        for at in [tx(queue, CONTROL), rx(queue, CONTROL)] {
            bus.write(at, 0);
        }
        [tx(queue, CONTROL), rx(queue, CONTROL)].into_iter().all(|at| comes(bus, at, ENABLE, false))
    }

    /// Sets the least time between two interrupts of a queue.
    fn throttle(bus: &impl Bus, queue: u32, interval_ns: u32) {
        bus.write(EITR + 4 * queue, eitr(interval_ns) | EITR_CNT_INGR);
    }

    fn unmask(bus: &impl Bus, queue: u32) {
        bus.write(EIMS, 1 << queue);
    }

    fn mask(bus: &impl Bus, queue: u32) {
        bus.write(EIMC, 1 << queue);
    }

    /// Does nothing: a message clears its cause (`EIAC`).
    fn acknowledge(_bus: &impl Bus, _queue: u32) {}

    /// Returns the frames that a queue has dropped since the last call.
    fn missed(bus: &impl Bus, queue: u32) -> u64 {
        match bus.read(rx(queue, RQDPC)) {
            u32::MAX => 0,
            count => u64::from(count & RQDPC_COUNT),
        }
    }
}
