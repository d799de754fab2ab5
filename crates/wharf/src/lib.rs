//! Wharf: a packet transmit path for Linux user space.
//!
//! Threads hand packets to a queue. The queue dequeues in bulk, within a byte limit that it learns from
//! completions (BQL), gives each batch to the device in one call with one doorbell, and returns the memory to
//! the sender that it came from. A sender that is too fast waits and is woken in turn. No packet is dropped
//! unless a drop policy is asked for.
//!
//! # Quick start
//!
//! A [`Port`] is a device with its pool of memory, its queue and the thread that serves it. A wire has its
//! other end in this process; `xdp:eth0`, `packet:eth0`, `tap:NAME` or `udp:192.0.2.1:9` lead out of it. A
//! packet is a whole Ethernet frame. `udp:` takes frames of UDP over IP ([`net`] writes the headers), and
//! sends their payloads by a socket. A frame that a device cannot send, such as one that is too short, counts
//! as failed in [`metrics`], with the reason (`too-short`, `not-udp`).
//!
//! ```
//! use std::time::Duration;
//! use wharf::{Direction, Port};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let port = Port::open("wire", Direction::Send)?;
//! let far_end = port.far_end()?;
//!
//! // One sender per thread. Packets go out in bursts, one call per burst; `send` waits for room, here for a second at most.
//! let second = Duration::from_secs(1);
//! let mut sender = port.sender("example")?;
//! let mut burst = sender.burst(32);
//! sender.fill(&mut burst, 32, 64, second)?;
//! for (number, packet) in burst.iter_mut().enumerate() {
//!     packet.fill(number as u8);
//! }
//! let sent = sender.send(&mut burst, second)?;
//! assert_eq!(sent.left, 0, "a time that is over is no error");
//!
//! // The other end receives on this thread. `served_receiver` is for tasks, `on_receive` takes a handler.
//! let mut receiver = far_end.receiver()?;
//! let (mut received, mut bytes) = (far_end.burst(64), 0);
//! while bytes < 32 * 64 {
//!     receiver.recv(&mut received, second)?;
//!     bytes += received.iter_mut().map(|packet| packet.len()).sum::<usize>();
//!     received.clear();
//! }
//!
//! // All packets are accounted for, and all memory is back.
//! drop(sender);
//! let audit = port.close(second);
//! assert_eq!((port.snapshot().sent, audit.out()), (32, 0), "{audit}");
//! # Ok(())
//! # }
//! ```
//!
//! # Events
//!
//! A port tells what happens to its device while it lasts. `send` waits, or its packets fail and count; a
//! program that must know reads [`Port::events`], blocking, as a task or by a descriptor for poll(2), or asks
//! for [`Port::state`].
//!
//! | event | what it means | what ends it |
//! |---|---|---|
//! | [`Event::Down`] | no carrier, switched off, no peer: packets fail or wait | [`Event::Up`] |
//! | [`Event::Gone`] | the interface, the peer or the queue is gone | [`Event::Reopened`]: see [`OnGone`] |
//! | [`Event::Reset`] | the device is closed, to be opened again, as asked | [`Event::Reopened`] |
//! | [`Event::NotYet`] | it cannot be opened again yet | [`Event::Reopened`] |
//! | [`Event::Stalled`] | the device completes nothing, for longer than it ever takes | [`Event::Resumed`] |
//! | [`Event::Panicked`] | a handler or discipline panicked | nothing |
//!
//! # Contents
//!
//! | task | items |
//! |---|---|
//! | all that follows, opened by one specification | [`Port`], [`PortBuilder`], [`Owners`] |
//! | memory: a pool, packets, bursts, and the holders of frames | [`PagePool`], [`Packet`], [`PacketMut`](queue::PacketMut), [`Burst`], [`Audit`](queue::Audit) |
//! | headers: room in front of a packet, parsers, builders, checksums, segments | [`Packet::prepend`], [`Packet::segments`], [`net`] |
//! | senders: threads, tasks of any runtime, a drop policy, several queues | [`Sender`], [`Permit`](queue::Permit), [`Canceller`](queue::Canceller), [`Spread`](queue::Spread) |
//! | one sender that owns its path: no lane, no other thread | [`PortBuilder::build_direct`] |
//! | receiving: by calls, as a task, by a handler, several by flow | [`Receiver`], [`Port::receivers`], [`Handler`](queue::Handler), [`Rest`](queue::Rest) |
//! | several queues of a device | [`PortBuilder::build_queues`], [`Spread`](queue::Spread) |
//! | what happens to the device: line down, up, gone, stalls, panics | [`Port::events`], [`Port::state`], [`Event`] |
//! | what is done about it: wait, reset, open again, fail | [`OnStall`], [`OnGone`], [`Port::reopen`] |
//! | queueing disciplines, or one of your own | module [`qdisc`] |
//! | devices by specification, or one of your own | module [`device`], [`Port::builder_over`] |
//! | what all of these count: one value that adds up, or a walk | [`Port::snapshot`], module [`metrics`] |
//! | packets that arrive at one device and leave by another, both ways | module [`forward`] |
//! | tests: virtual time, devices with faults, the contract of a discipline | module [`testing`] |
//! | the parts of a port: transmit queue, memory, clocks, ways to wait | module [`queue`] |
//!
//! Examples that are programs, of at most 100 lines: `retransmit`, `echo` (tasks), `balance` (a load
//! balancer), `capture` (to disk).
//!
//! # Features
//!
//! One for each kind of device: `packet`, `pcap`, `tap`, `udp` and `xdp` are on by default; `vhost`
//! (vhost-user and virtio-user) is not, since it brings twelve crates. `null` and `wire` are always there.
//! Kinds of other crates come by [`Registry::with`](device::Registry::with). With `default-features = false`
//! and `xdp`, `packet` and `udp`, a first build compiles 27 crates, `wharf` included.
//!
//! `serde` makes [`metrics::Snapshot`] a record. `unswitched-off` is for a measurement alone: the path
//! without the switch for batching.
//!
//! Generators, checking receivers and traces are `wharf-tools`. The command line has the same devices and
//! disciplines: `wharf send`, `wharf receive`, `wharf forward`, `wharf devices`.
#![forbid(unsafe_code)]

pub mod forward;
pub mod metrics;
mod open_error;
mod port;
pub mod queue;
pub mod testing;

pub use open_error::{OpenError, OpenErrorKind};
pub use port::{Event, Events, OnGone, OnStall, Owners, Port, PortBuilder, State};
#[doc(inline)]
pub use wharf_core::pool::{Burst, Packet, PagePool};
#[doc(inline)]
pub use wharf_core::rx::{Receiver, RecvError};
#[doc(inline)]
pub use wharf_core::sender::{SendError, Sender, Sent};
#[doc(inline)]
pub use wharf_core::wait::Wait;
#[doc(inline)]
pub use wharf_devices::spec::Direction;
#[doc(no_inline)]
pub use wharf_packet as net;

/// A device of one's own, devices by specification, and the kinds that there are.
pub mod device {
    #[doc(inline)]
    pub use wharf_core::device::{
        AnyDevice, CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice,
        TxInfo,
    };
    #[doc(inline)]
    pub use wharf_core::options::{Key, OptionError, Options};
    #[doc(inline)]
    pub use wharf_core::pool::Cache;
    #[doc(inline)]
    pub use wharf_core::{delegate, wrap_device};
    #[doc(inline)]
    pub use wharf_devices::registry::Registry;
    #[doc(inline)]
    pub use wharf_devices::spec::{DeviceSpec, Kind, Opened, Opening};
    #[doc(inline)]
    pub use wharf_mem::{Batch, Frame, MemError, Meta, Region};
}

/// Queueing disciplines, and what one of your own implements.
pub mod qdisc {
    #[doc(inline)]
    pub use wharf_core::qdisc::{
        Backpressure, Edt, EdtOptions, Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Order, Prio, Qdisc,
        QdiscContext, QdiscKind, QdiscRegistry, QdiscSetup, QdiscSpec, Rate, RateGroup, Tbf, WhenFull,
    };
}
