//! The words that describe a kind, and in which a device is asked for.

/// The part of a specification behind the colon. The texts are its names in usage lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing: keys follow at once.
    Nowhere,
    /// A file's path.
    File(&'static str),
    /// A network interface.
    Interface(&'static str),
    /// The path of a Unix socket.
    Socket(&'static str),
    /// A network address.
    Address(&'static str),
    /// An adapter's address on its bus.
    Adapter(&'static str),
    /// A device that is no network interface.
    Device(&'static str),
}

impl Place {
    /// Returns its name, and its name in usage lines.
    pub(super) fn words(self) -> Option<(&'static str, &'static str)> {
        match self {
            Place::Nowhere => None,
            Place::File(usage) => Some(("file", usage)),
            Place::Interface(usage) => Some(("interface", usage)),
            Place::Socket(usage) => Some(("socket", usage)),
            Place::Address(usage) => Some(("address", usage)),
            Place::Adapter(usage) => Some(("adapter", usage)),
            Place::Device(usage) => Some(("device", usage)),
        }
    }
}

/// The layout of a kind's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLayout {
    /// There is one.
    One,
    /// Each is a device of its own.
    Devices,
    /// They are pairs inside one device.
    Pairs,
}

/// The abilities of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Can {
    /// Send.
    pub send: bool,
    /// Receive.
    pub receive: bool,
    /// Both at once, opened once.
    pub both: bool,
    /// Get back by the same device what it has sent, from a switch that returns it.
    pub echo: bool,
    /// Give its other end to this process: see [`Opened::far_end`](super::Opened::far_end).
    pub far_end: bool,
    /// Send nothing beyond this process, so that traffic needs no bound.
    pub stays_inside: bool,
    /// Send frames of one size that come in one burst as one message.
    pub joins_bursts: bool,
    /// Look at no Ethernet address of what they send.
    pub ignores_addresses: bool,
}

impl Can {
    /// Sends.
    pub const SEND: Self = Self {
        send: true,
        receive: false,
        both: false,
        echo: false,
        far_end: false,
        stays_inside: false,
        joins_bursts: false,
        ignores_addresses: false,
    };
    /// Receives.
    pub const RECEIVE: Self = Self { send: false, receive: true, ..Self::SEND };
    /// Sends, receives, and does both.
    pub const BOTH: Self = Self { receive: true, both: true, ..Self::SEND };
    /// The same, and what it sends may come back by it.
    pub const ECHO: Self = Self { echo: true, ..Self::BOTH };
}

/// The direction in which a device is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To send.
    Send,
    /// To receive.
    Receive,
    /// Both ways.
    Both,
}
