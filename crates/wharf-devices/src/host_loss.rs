//! `HostLoss`: what this host loses by a device.

/// Arrivals that this host gets no more while a device is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLoss {
    /// The loss, in words.
    pub what: String,
    /// True if the host is cut off: the interface has the default route, or this login.
    pub is_vital: bool,
    /// What leaves the host its arrivals, in words, if anything does.
    pub remedy: Option<&'static str>,
}
