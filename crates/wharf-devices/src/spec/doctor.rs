//! `Doctor`: the part of a kind in a diagnosis.

use super::{DeviceSpec, Direction};
use crate::doctor::finding::Finding;

/// The part of a kind in a diagnosis.
#[derive(Debug, Clone, Copy)]
pub struct Doctor {
    /// Looks at the device without opening it.
    pub findings: fn(&DeviceSpec) -> Vec<Finding>,
    /// Returns what opening the device in a direction does to others.
    pub effect: fn(&DeviceSpec, Direction) -> Effect,
}

impl Doctor {
    /// Finds nothing, and opens a device without effect on others.
    pub const NONE: Self = Self { findings: |_| Vec::new(), effect: |_, _| Effect::None };
}

/// An effect of opening a device on programs and machines other than this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// None.
    None,
    /// A short disturbance, while the device is open.
    Short(String),
    /// An adapter's link may be reset, for seconds: a diagnosis opens the device only if it was asked to.
    Reset(String),
    /// An effect that stays, or a long wait: a diagnosis does not open the device.
    Lasting(String),
}
