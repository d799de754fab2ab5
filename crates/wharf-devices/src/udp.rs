//! `udp:HOST:PORT`: UDP payloads through a kernel socket. Needs no privilege.
//!
//! Frames are Ethernet frames, as for every device, but the kernel's network stack stands between them and
//! the wire. Of a frame that is sent, the kernel sends the datagram's payload under headers of its own. A
//! datagram that is received gets headers made from what the kernel reports: addresses, ports, lengths, right
//! checksums.
//!
//! Sending: consecutive datagrams of one length to one place are one message, which the kernel or the adapter
//! segments (`UDP_SEGMENT`). All messages of a batch go by one call. A super-packet of UDP is sent from where
//! its payload lies. [`Udp::connect`] sends everything to one address. [`Udp::bind`] sends each frame to the
//! frame's destination, from the bound port. A socket bound to no address sends from the frame's source
//! address, if that is this machine's. A frame that is no UDP datagram fails as `not-udp`. Receiving: from
//! the peer if connected, else from any sender. One device does both.
//!
//! There are no completions: the kernel has copied a frame when the call returns, so there is no byte queue
//! limit. A full socket buffer stops the device until the kernel reports that it is writable; so does a full
//! queueing discipline, for a moment.
//!
//! A datagram that the kernel has taken may yet be lost before the destination: no neighbour answers, a router
//! has no route, no program listens. The kernel queues a report of each (`IP_RECVERR`), as far as ICMP reports
//! them. They
//! are read when a call returns an error, and when the device is closed, and are counted by
//! [`DeviceError::Undelivered`].

#[doc(hidden)]
pub mod addressing;
#[doc(hidden)]
pub mod datagram;
mod doctor;
#[doc(hidden)]
pub mod headers;
mod joining;
mod plan;
mod receiving;
mod send_errors;
#[doc(hidden)]
pub mod sending;
mod spec;

use crate::iface::{KernelDrops, io_fault};
use crate::thinning::{PacketBegin, Thinning};
use addressing::{Addressing, ByFrame};
use receiving::Receiving;
use send_errors::{EACCES, EADDRNOTAVAIL};
use sending::{RING_FRAMES, Sending};
pub(crate) use spec::KIND;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Passes, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::errno::{EADDRINUSE, EINVAL, ENOBUFS, ENODEV, EPERM};
use wharf_sys::udp::UdpSocket;
use wharf_sys::xdp::set_filter;

/// Bytes that may wait to be received, by default.
const BUFFER_BYTES: usize = 8 << 20;

/// Settings of a [`Udp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// True to send runs of datagrams as one message, where the kernel takes that: the default.
    pub segments: bool,
    /// True to let the kernel join received datagrams of one flow (`UDP_GRO`): off by default. Receiving is
    /// much faster where a sender on this host, or an adapter, joins them. The kernel then counts drops in
    /// joined datagrams, so the number of lost datagrams is unknown.
    pub joins_received: bool,
    /// Bytes that may wait to be received, counted with the kernel's own overhead: 8 MiB by default, or as
    /// many as `net.core.rmem_max` allows.
    pub buffer_bytes: usize,
    /// Number of the interface at which a multicast group is joined, and by which datagrams leave to one. 0,
    /// the default: that of the address's zone, or as the routes say.
    pub interface: u32,
}

/// A UDP socket as a device.
#[derive(Debug)]
pub struct Udp {
    name: String,
    /// `None` once closed.
    socket: Option<UdpSocket>,
    sending: Sending,
    receiving: Receiving,
    drops: KernelDrops,
    thinning: Thinning,
}

/// The error that the kernel maps to EINVAL here (`net/ipv6/datagram.c`, `af_inet6.c`).
const NO_SCOPE: &str = "a link-local address wants its interface: udp:[fe80::1%eth0]:53";

impl Udp {
    /// Sends to the first of `peers` that has a route, and receives from it alone: nothing, if it is a
    /// multicast group. `name` is for messages.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if no peer has a route.
    pub fn connect(name: &str, peers: &[SocketAddr], options: &UdpOptions) -> Result<Self, DeviceError> {
        let connect = |peer| UdpSocket::connect(peer, options.interface);
        let socket = first_of(peers, connect).map_err(|source| {
            let what = match source.raw_os_error() {
                Some(EACCES | EPERM) => "may not send there: a broadcast address, or a firewall",
                Some(EINVAL) => NO_SCOPE,
                _ => "there is no way there",
            };
            io_fault(name, what)(source)
        })?;
        Ok(Self::new(name, socket, Addressing::Connected, options))
    }

    /// Receives datagrams for the first of `locals` that it can be bound to, and sends from there to each
    /// frame's destination. For port 0 the kernel chooses a free port; if `name` ends in `:0`, that number
    /// replaces the 0. A multicast group is joined ([`UdpSocket::join`]).
    ///
    /// # Errors
    /// [`DeviceError::Io`] if it can be bound to none of them.
    pub fn bind(name: &str, locals: &[SocketAddr], options: &UdpOptions) -> Result<Self, DeviceError> {
        let bind = |local: SocketAddr| match local.ip().is_multicast() {
            true => UdpSocket::join(local, options.interface),
            false => UdpSocket::bind(local),
        };
        let socket = first_of(locals, bind).map_err(|source| {
            let what = match source.raw_os_error() {
                Some(ENODEV) => "no route leads to the group: interface=IF says where to join it",
                Some(ENOBUFS) => "no more memberships: sysctl net.ipv4.igmp_max_memberships",
                Some(EADDRINUSE) => "the port is in use (`ss -ulpn` says by whom)",
                Some(EADDRNOTAVAIL) => "that is no address of this machine (`ip address` lists them)",
                Some(EINVAL) => NO_SCOPE,
                Some(EACCES) => "a port below 1024 needs CAP_NET_BIND_SERVICE",
                _ => "cannot be bound to it",
            };
            io_fault(name, what)(source)
        })?;
        socket.tell_destinations().map_err(io_fault(name, "cannot set up the socket"))?;
        if options.interface > 0 {
            socket.send_groups_by(options.interface).map_err(io_fault(name, "cannot set up the socket"))?;
        }
        let local = socket.local();
        let by_frame = ByFrame::new(local);
        // Peers have to be told the port that the kernel chose.
        let name = match name.strip_suffix(":0") {
            Some(host) => format!("{host}:{}", local.port()),
            None => name.into(),
        };
        Ok(Self::new(&name, socket, Addressing::ByFrame(by_frame), options))
    }

    fn new(name: &str, socket: UdpSocket, addressing: Addressing, options: &UdpOptions) -> Self {
        socket.set_receive_buffer(options.buffer_bytes);
        // Without reports a connected socket still gets the errors of closed ports.
        let _ = socket.report_errors();
        if options.joins_received {
            // A kernel without `UDP_GRO` delivers datagrams one by one.
            let _ = socket.join_received();
        }
        let joins = options.segments && socket.can_segment();
        Self {
            name: name.into(),
            sending: Sending::new(name, addressing, joins),
            receiving: Receiving::new(),
            socket: Some(socket),
            drops: KernelDrops::default(),
            thinning: Thinning::new(PacketBegin::Ip),
        }
    }

    fn count_drops(&mut self) {
        if let Some(Ok(drops)) = self.socket.as_ref().map(UdpSocket::drops) {
            self.drops.count_to(drops);
        }
    }
}

/// Returns the first success, or the last error.
fn first_of(
    addresses: &[SocketAddr], open: impl Fn(SocketAddr) -> io::Result<UdpSocket>,
) -> io::Result<UdpSocket> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for &address in addresses {
        last = open(address);
        if last.is_ok() {
            break;
        }
    }
    last
}

impl Notify for Udp {
    /// The kernel notifies when a datagram arrives, and when there is room to send again.
    fn wait_fd(&self) -> Option<RawFd> {
        self.socket.as_ref().map(|socket| socket.fd().as_raw_fd())
    }
}

impl Device for Udp {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.sending.attach(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.book.visit(see);
    }

    /// Waits up to 4 s for datagrams that have not left this host, so that the kernel can report that no neighbour
    /// answers.
    fn close(&mut self) -> Result<(), DeviceError> {
        self.count_drops();
        if let Some(socket) = self.socket.take() {
            self.sending.errors.wait_for_reports(&socket);
        }
        self.sending.errors.take_last_error()
    }
}

impl TxDevice for Udp {
    fn info(&self) -> TxInfo {
        // The kernel computes checksums itself.
        let any = TxInfo::of_any_frame(RING_FRAMES, CompletionMode::None);
        TxInfo { segments_max: plan::PIECES_MAX as u16, ..any }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        match &mut self.socket {
            Some(socket) => self.sending.transmit(socket, batch),
            None => self.sending.refuse(batch),
        }
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.reap(budget, into)
    }

    fn outstanding(&self) -> usize {
        self.sending.outstanding()
    }

    /// Without any, closing waits for no report.
    fn set_patience(&mut self, patience: Option<Duration>) {
        self.sending.errors.is_hasty = patience == Some(Duration::ZERO);
    }
}

impl RxDevice for Udp {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        if self.drops.is_due() {
            self.count_drops();
        }
        let Self { name, socket: Some(socket), sending, receiving, .. } = self else { return Ok(0) };
        let socket = &*socket;
        let told = &mut |error| sending.errors.note_error(socket, error);
        receiving.receive(socket, cache, to, budget.min(to.room()), name, told)
    }

    fn ended(&self) -> bool {
        self.socket.is_none()
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.count_drops();
        // The kernel counts what the filter drops as well.
        see("socket-full", self.drops.total().saturating_sub(self.thinning.dropped()));
        self.receiving.drops.show(see);
        self.thinning.show(see);
    }

    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        let Some(socket) = &self.socket else { return false };
        self.thinning.thin(passes, |filter| set_filter(socket.fd(), filter))
    }
}
