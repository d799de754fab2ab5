//! Registers that both families have at the same place: PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual (8254x), section 13.4; Intel 82576 Gigabit Ethernet Controller Datasheet, section 8.

/// Device control.
pub(crate) const CTRL: u32 = 0x0000;
/// Device status.
pub(crate) const STATUS: u32 = 0x0008;
/// Access to the PHY's registers.
pub(crate) const MDIC: u32 = 0x0020;
/// Flow control: addresses, type and timer of pause frames.
pub(crate) const FLOW_CONTROL: [u32; 4] = [0x0028, 0x002c, 0x0030, 0x0170];
/// Receive control.
pub(crate) const RCTL: u32 = 0x0100;
/// Transmit control.
pub(crate) const TCTL: u32 = 0x0400;
/// Frames that were missed for lack of room in the adapter, had a wrong check sequence, had an error on the line, or
/// were longer than is permitted. A read clears each.
pub(crate) const MPC: u32 = 0x4010;
pub(crate) const CRCERRS: u32 = 0x4000;
pub(crate) const RXERRC: u32 = 0x400c;
pub(crate) const ROC: u32 = 0x40ac;
/// Checksums of what arrives.
pub(crate) const RXCSUM: u32 = 0x5000;
/// The table of multicast addresses: 128 words.
pub(crate) const MTA: u32 = 0x5200;

/// `CTRL`: full duplex, link reset, speed detection, set link up, inverted loss of signal, forced speed and duplex,
/// reset, VLAN tags taken out, reset of the PHY.
pub(crate) const CTRL_FD: u32 = 1;
pub(crate) const CTRL_LRST: u32 = 1 << 3;
pub(crate) const CTRL_ASDE: u32 = 1 << 5;
pub(crate) const CTRL_SLU: u32 = 1 << 6;
pub(crate) const CTRL_ILOS: u32 = 1 << 7;
pub(crate) const CTRL_FRCSPD: u32 = 1 << 11;
pub(crate) const CTRL_FRCDPX: u32 = 1 << 12;
pub(crate) const CTRL_RST: u32 = 1 << 26;
pub(crate) const CTRL_VME: u32 = 1 << 30;
pub(crate) const CTRL_PHY_RST: u32 = 1 << 31;

/// `STATUS`: the link is up.
pub(crate) const STATUS_LU: u32 = 1 << 1;

/// `RCTL`: enable, unicast and multicast frames for others, long frames, broadcast frames, check sequence stripped.
pub(crate) const RCTL_EN: u32 = 1 << 1;
pub(crate) const RCTL_UPE: u32 = 1 << 3;
pub(crate) const RCTL_MPE: u32 = 1 << 4;
pub(crate) const RCTL_LPE: u32 = 1 << 5;
pub(crate) const RCTL_BAM: u32 = 1 << 15;
pub(crate) const RCTL_SECRC: u32 = 1 << 26;

/// `TCTL`: enable, pad short frames; the collision threshold and distance that both manuals recommend for full duplex.
pub(crate) const TCTL_EN: u32 = 1 << 1;
pub(crate) const TCTL_PSP: u32 = 1 << 3;
pub(crate) const TCTL_COLLISIONS: u32 = 0xf << 4 | 0x40 << 12;
