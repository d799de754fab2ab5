//! `packet:INTERFACE`: a raw socket on a network interface, by rings shared with the kernel: packet(7).
//!
//! Sending: [`PacketSender`], PACKET_TX_RING. Each frame is copied into a slot, one system call hands a batch over,
//! and a slot comes back when its frame has left: real completions, so that there is a byte queue limit.
//! Receiving: [`PacketReceiver`], PACKET_RX_RING in blocks. Both have PACKET_VNET_HDR on, the header that tells
//! of checksums not yet computed and super-packets not yet cut.
//!
//! Needs CAP_NET_RAW. The interface is looked up in the network namespace of the thread that opens it.

mod health;
mod receiving;
mod sending;
mod vnet;

pub use receiving::{PacketReceiver, ReceiveOptions, SuperPackets};
pub use sending::{PacketSender, SendOptions};

use std::io;
use wharf_core::device::DeviceError;
use wharf_sys::packet::{Interface, InterfaceState, PacketSocket};

/// Ethernet header, and one VLAN tag.
const ETHERNET_BYTES: u32 = 14;
const VLAN_BYTES: u32 = 4;
/// Where the EtherType, or the first VLAN tag, stands.
const ETHERTYPE_AT: usize = 12;

/// A socket and its interface, before there is a ring.
struct Opened {
    /// For messages.
    name: String,
    interface_name: String,
    socket: PacketSocket,
    interface: Interface,
    state: InterfaceState,
}

impl Opened {
    /// Opens a socket for `interface`, which must be up.
    fn new(interface_name: &str) -> Result<Self, DeviceError> {
        let name = format!("packet:{interface_name}");
        let fault = |what: &str, source: io::Error| DeviceError::Io {
            device: name.escape_debug().to_string(),
            what: what.into(),
            source,
        };
        let socket = PacketSocket::open().map_err(|error| {
            fault("a raw socket needs CAP_NET_RAW (`wharf devices` says how to get it)", error)
        })?;
        let interface = socket.interface(interface_name).map_err(|error| {
            fault("no such interface in this network namespace (`ip link` lists them)", error)
        })?;
        if !interface.is_ethernet {
            let what = "its frames have no Ethernet header: only Ethernet interfaces can be used".into();
            return Err(DeviceError::Unsupported { device: name, what });
        }
        let state = socket
            .interface_state(interface.index)
            .map_err(|error| fault("the interface has gone again", error))?;
        if !state.is_up {
            return Err(fault(&down(interface_name), io::Error::from_raw_os_error(ENETDOWN)));
        }
        Ok(Self { name, interface_name: interface_name.into(), socket, interface, state })
    }

    /// What the system refused while setting up.
    fn fault(&self, what: &str) -> impl Fn(io::Error) -> DeviceError + use<> {
        let (device, what) = (self.name.clone(), what.to_string());
        move |source| DeviceError::Io { device: device.clone(), what: what.clone(), source }
    }
}

/// Numbers of errors, as in errno(3) on Linux.
const EAGAIN: i32 = 11;
const EINTR: i32 = 4;
const ENXIO: i32 = 6;
const ENOMEM: i32 = 12;
const ENODEV: i32 = 19;
const ENETDOWN: i32 = 100;
const ENOBUFS: i32 = 105;

fn down(interface: &str) -> String {
    format!("the interface is down: `ip link set {interface} up`")
}

fn no_carrier(interface: &str) -> String {
    format!("{interface} has no carrier: its other end is down or not plugged in")
}

/// Whether an Ethernet frame begins with a VLAN tag, for which the MTU leaves room.
fn is_tagged(frame: &[u8]) -> bool {
    matches!(frame.get(ETHERTYPE_AT..ETHERTYPE_AT + 2), Some([0x81, 0x00] | [0x88, 0xa8]))
}
