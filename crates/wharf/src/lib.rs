//! Wharf: a packet transmit path for Linux user space.
//!
//! Threads hand packets to a [`TxQueue`]. The queue dequeues in bulk, within a byte limit that it learns from
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
//! as failed in [`Metrics`], with the reason (`too-short`, `not-udp`).
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
//! sender.fill_within(&mut burst, 32, 64, second)?;
//! for (number, packet) in burst.iter_mut().enumerate() {
//!     packet.fill(number as u8);
//! }
//! sender.send_within(&mut burst, second)?;
//!
//! // The other end receives on this thread. `served_receiver` is for tasks, `on_receive` takes a handler.
//! let mut receiver = far_end.receiver()?;
//! let (mut received, mut bytes) = (far_end.burst(64), 0);
//! while bytes < 32 * 64 {
//!     receiver.recv_within(&mut received, second)?;
//!     bytes += received.iter_mut().map(|packet| packet.len()).sum::<usize>();
//!     received.clear();
//! }
//!
//! // All packets are accounted for, and all memory is back.
//! drop(sender);
//! let audit = port.close(second);
//! assert_eq!((port.queue()?.counters().sent.get(), audit.out()), (32, 0), "{audit}");
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
//! | [`Event::Gone`] | the interface, the peer or the queue is gone | nothing: open another port |
//! | [`Event::Stalled`] | the device completes nothing, for longer than it ever takes | [`Event::Resumed`] |
//! | [`Event::Panicked`] | a handler or discipline panicked | nothing |
//!
//! # Contents
//!
//! | task | items |
//! |---|---|
//! | all that follows, opened by one specification | [`Port`], [`PortBuilder`], [`Owners`] |
//! | memory: a pool, packets, bursts, and the holders of frames | [`PagePool`], [`Packet`], [`PacketMut`], [`Burst`], [`Cache`], [`Audit`] |
//! | headers: room in front of a packet, parsers, builders, checksums, segments | [`Packet::prepend`], [`Packet::segments`], [`net`] |
//! | a transmit queue | [`TxQueue`], [`QueueBuilder`], [`Batching`], [`Bounds`], [`QueueCounters`] |
//! | senders: threads, tasks of any runtime, a drop policy, several queues | [`Sender`], [`Permit`], [`Canceller`], [`Spread`] |
//! | one sender that owns its queue: no lane, no other thread | [`Direct`] |
//! | receiving: by calls, as a task, by a handler, several by flow | [`Receiver`], [`Port::receivers`], [`RxQueue`], [`Handler`], [`Rest`] |
//! | several queues of a device | [`PortBuilder::build_queues`], [`Spread`] |
//! | a thread that completes, receives and transmits for others | [`PollerThread`] |
//! | queueing disciplines, or one of your own | [`Fifo`], [`Prio`], [`Tbf`], [`FqCodel`], [`Qdisc`], [`QdiscRegistry`] |
//! | devices by specification, or one of your own | [`open`], [`Registry`], [`Kind`], [`TxDevice`], [`RxDevice`] |
//! | what happens to the device: line down, up, gone, stalls, panics | [`Port::events`], [`Port::state`], [`Event`] |
//! | what is done about it: wait, reset, open again, fail | [`OnStall`], [`OnGone`], [`Port::reopen`] |
//! | what all of these count, in one walk | [`Metrics`], [`Metric`], [`MetricKind`] |
//! | clocks and ways to wait, real or modelled | [`HostClock`], [`HostPark`], [`Clock`], [`Park`] |
//!
//! Examples that are programs, of at most 100 lines: `retransmit`, `echo` (tasks), `balance` (a load
//! balancer), `capture` (to disk).
//!
//! # Features
//!
//! One for each kind of device: `packet`, `pcap`, `tap`, `udp` and `xdp` are on by default; `vhost`
//! (vhost-user and virtio-user) is not, since it brings twelve crates. `null` and `wire` are always there.
//! Kinds of other crates come by [`Registry::with`]. With `default-features = false` and `xdp`, `packet` and
//! `udp`, a first build compiles 20 crates, `wharf` included.
//!
//! `unswitched-off` is for a measurement alone: the path without the switch for batching.
//!
//! The items on this page are the public interface. The hidden modules hold the parts that the workspace's
//! other crates use; they change without notice. Generators, checking receivers, the forwarder, fault
//! injection and traces are `wharf-tools`. The command line has the same devices and disciplines: `wharf
//! send`, `wharf receive`, `wharf forward`, `wharf devices`.
#![forbid(unsafe_code)]

mod port;

// The front door.
pub use port::{Event, Events, Metrics, OnGone, OnStall, Owners, Port, PortBuilder, State};
#[doc(inline)]
pub use wharf_core::metrics::{Metric, MetricKind};
#[doc(inline)]
pub use wharf_core::rx::Receiver;
#[doc(inline)]
pub use wharf_core::sender::Canceller;

// Memory.
#[doc(inline)]
pub use wharf_core::pool::{Audit, Burst, Cache, Packet, PacketMut, PagePool, PoolBuilder, PoolError};
#[doc(inline)]
pub use wharf_mem::{Batch, Frame, Meta, Region};

// Headers: parsed, written, summed up, cut.
#[doc(no_inline)]
pub use wharf_packet as net;

// A transmit queue and its senders.
#[doc(inline)]
pub use wharf_core::bql::Bounds;
#[doc(inline)]
pub use wharf_core::counters::{Counter, QueueCounters, SenderCounters};
#[doc(inline)]
pub use wharf_core::direct::Direct;
#[doc(inline)]
pub use wharf_core::engine::Batching;
#[doc(inline)]
pub use wharf_core::queue::{QueueBuilder, QueueError, TxQueue};
#[doc(inline)]
pub use wharf_core::sender::{Permit, Sender, Spread};

// Receiving, and threads that serve queues.
#[doc(inline)]
pub use wharf_core::poller::{Mode, Settings};
#[doc(inline)]
pub use wharf_core::rx::{Handler, Rest, RxQueue};
#[doc(inline)]
pub use wharf_devices::host::PollerThread;

// Queueing disciplines.
#[doc(inline)]
pub use wharf_core::qdisc::{
    Backpressure, Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Order, Prio, Qdisc, QdiscContext,
    QdiscKind, QdiscRegistry, QdiscSetup, QdiscSpec, Rate, Tbf, WhenFull,
};

// Devices by specification, and the kinds that there are.
#[doc(inline)]
pub use wharf_core::options::{Key, Options};
#[doc(inline)]
pub use wharf_devices::registry::{Registry, open};
#[doc(inline)]
pub use wharf_devices::spec::{
    Can, DeviceSpec, Direction, Kind, Opened, Opening, Place, QueueLayout, Queues,
};

// A device of one's own.
#[doc(inline)]
pub use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
#[doc(inline)]
pub use wharf_core::{delegate, wrap_device};
#[cfg(feature = "vhost")]
#[doc(inline)]
pub use wharf_devices::vhost_user::install_sigbus_handler;

// Clocks and ways to wait.
#[doc(inline)]
pub use wharf_core::host::{Clock, Park, Wake};
#[doc(inline)]
pub use wharf_devices::host::{HostClock, HostPark, WakeFd};

// Held, matched or opened by few programs: a guard without methods, errors inside others, the device behind `null`,
// fields of a `Kind`, a `Key`, an `Opened` and a `Prio`.
#[doc(hidden)]
pub use wharf_core::device::ModeReason;
#[doc(hidden)]
pub use wharf_core::device::{AnyDevice, Duplex};
#[doc(hidden)]
pub use wharf_core::options::{OptionError, Values};
#[doc(hidden)]
pub use wharf_core::pool::NoRoom;
#[doc(hidden)]
pub use wharf_core::qdisc::DscpBands;
#[doc(hidden)]
pub use wharf_core::sender::Watch;
#[doc(hidden)]
pub use wharf_devices::doctor::{Datum, Diagnosis, Doctor, Effect, Exam, Finding, Trial, Weight, diagnose};
#[doc(hidden)]
pub use wharf_devices::null::Null;
#[doc(hidden)]
pub use wharf_devices::reasons::{Counted, Reason};
#[doc(hidden)]
pub use wharf_devices::requirements::{Capability, Requirement};
#[doc(hidden)]
pub use wharf_mem::MemError;

// What a port does by itself, for programs that put one together by hand.
#[doc(hidden)]
pub use wharf_core::poller::Dedicated;
#[doc(hidden)]
pub use wharf_devices::host::{ExactClock, PollerBuilder, pin, processors};

#[doc(hidden)]
pub use wharf_core::{
    bql, counters, device, direct, engine, gso, host, metrics, monitor, options, owner, poller, pool, qdisc,
    queue, random, rx, sender, sg_writer, small_queue,
};
#[doc(hidden)]
pub use wharf_devices as devices;
#[doc(hidden)]
pub use wharf_mem as mem;
