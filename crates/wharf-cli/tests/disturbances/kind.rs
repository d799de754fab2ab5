//! `Kind`: a disturbance, the devices that it can befall, and what is to follow.

use crate::bed::Bed;
use wharf::{OnGone, OnStall};

/// The device of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    Packet,
    Xdp,
    Tap,
    Udp,
    VhostUser,
    VirtioUser,
}

pub use Device::{Packet, Tap, Udp, VhostUser, VirtioUser, Xdp};

impl Device {
    pub fn name(self) -> &'static str {
        match self {
            Packet => "packet",
            Xdp => "xdp",
            Tap => "tap",
            Udp => "udp",
            VhostUser => "vhost-user",
            VirtioUser => "virtio-user",
        }
    }
}

pub const VETH: &[Device] = &[Packet, Xdp];
pub const INTERFACES: &[Device] = &[Packet, Xdp, Tap];
pub const PEERS: &[Device] = &[VhostUser, VirtioUser];
pub const ALL: &[Device] = &[Packet, Xdp, Tap, Udp, VhostUser, VirtioUser];

/// What is to follow a disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Traffic goes on within a second.
    Resumes,
    /// It is for good: each sender has an error, at the latest at its deadline.
    Errors,
}

pub struct Kind {
    pub name: &'static str,
    pub on: &'static [Device],
    /// Disturbs, and returns at the end of the cause.
    pub disturb: fn(&mut Bed),
    pub end: End,
    pub on_stall: OnStall,
    pub on_gone: OnGone,
}

impl Kind {
    pub const fn new(name: &'static str, on: &'static [Device], disturb: fn(&mut Bed)) -> Self {
        let (on_stall, on_gone) = (OnStall::Report, OnGone::Reopen);
        Self { name, on, disturb, end: End::Resumes, on_stall, on_gone }
    }

    /// A stall is the disturbance.
    pub const fn stalls(self, on_stall: OnStall) -> Self {
        Self { on_stall, ..self }
    }

    pub fn has_stalls(&self) -> bool {
        self.on_stall != OnStall::Report
    }

    pub const fn on_gone(self, on_gone: OnGone) -> Self {
        Self { on_gone, ..self }
    }

    /// It is for good.
    pub const fn errors(self) -> Self {
        Self { end: End::Errors, ..self }
    }
}
