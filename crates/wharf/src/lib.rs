//! Wharf: a packet transmit path for Linux user space.
//!
//! Threads hand packets to a [`TxQueue`]. The queue dequeues in bulk, within a byte limit that it learns from completions (BQL),
//! gives each batch to the device in one call with one doorbell, and returns the memory to the sender that it came from. A sender
//! that is too fast waits and is woken in turn. No packet is dropped unless a drop policy is asked for.
//!
//! # Quick start
//!
//! A packet travels from a pool through a sender, its queue and a device, and its memory comes back. The device here is a wire whose
//! far end is in this process; [`open`] makes others from specifications such as `xdp:eth0` or `udp:192.0.2.1:9`.
//!
//! ```
//! use std::sync::Arc;
//! use wharf::{Batch, Device, Direction, HostClock, HostPark, PagePool, PollerThread, RxDevice, TxQueue, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Memory: 4096 frames of 2 KiB, packets up to 1536 bytes. The queue: a FIFO of 1000 packets, a byte limit, batching on.
//! let pool = PagePool::builder().build()?;
//! let wire = open("wire", Direction::Send)?;
//! let queue = TxQueue::builder(&pool, wire.device.into_tx()?, Arc::new(HostClock), Arc::new(HostPark)).build()?;
//! let _poller = PollerThread::start(&queue)?; // takes completions while no sender does
//!
//! // One sender per thread. Packets go out in bursts, one call per burst; `send` waits for room.
//! let mut sender = queue.sender("example")?;
//! let mut burst = sender.burst(32);
//! sender.fill(&mut burst, 32, 64)?;
//! for (number, packet) in burst.iter_mut().enumerate() {
//!     packet.fill(number as u8);
//! }
//! sender.send(&mut burst)?;
//!
//! // The other end, with memory of its own.
//! let mut far_end = wire.far_end.ok_or("a wire has two ends")?;
//! let far_pool = PagePool::builder().frames(256).build()?;
//! far_end.attach(far_pool.region().clone())?;
//! let (mut cache, mut received) = (far_pool.cache("receiver")?, Batch::new(64));
//! while received.len() < 32 {
//!     far_end.receive(&mut cache, &mut received, 64)?;
//! }
//! assert_eq!(far_pool.region().bytes(&received.frames()[31])?, [31; 64]);
//! cache.give(&mut received)?;
//!
//! // All packets are accounted for, and all memory is back.
//! drop(sender);
//! let audit = queue.shutdown(u64::MAX);
//! assert_eq!((queue.counters().sent.get(), audit.out()), (32, 0), "{audit}");
//! # Ok(())
//! # }
//! ```
//!
//! # Contents
//!
//! | task | items |
//! |---|---|
//! | memory: a pool, packets, bursts, and the holders of frames | [`PagePool`], [`Packet`], [`Burst`], [`Cache`], [`Audit`] |
//! | a transmit queue | [`TxQueue`], [`QueueBuilder`], [`Batching`], [`Bounds`], [`QueueCounters`] |
//! | senders: threads, tasks of any runtime, a drop policy, several queues | [`Sender`], [`AsyncSender`], [`DropTail`], [`Spread`] |
//! | one sender that owns its path: no lane, no other thread | [`Direct`] |
//! | receiving | [`RxQueue`], [`Handler`], [`Rest`] |
//! | threads that complete, receive and transmit for others | [`PollerThread`], [`Dedicated`] |
//! | queueing disciplines, or one of your own | [`Fifo`], [`Prio`], [`Tbf`], [`FqCodel`], [`Qdisc`], [`QdiscRegistry`] |
//! | devices by specification, or one of your own | [`open`], [`Registry`], [`Kind`], [`TxDevice`], [`RxDevice`] |
//! | clocks and ways to wait, real or modelled | [`HostClock`], [`HostPark`], [`Clock`], [`Park`] |
//!
//! The items on this page are the public interface. The hidden modules hold the parts that the workspace's other crates use; they
//! change without notice. Packet headers, checksums and flow hashes are a crate of their own, `wharf-packet`; generators, checking
//! receivers, the forwarder, fault injection and traces are `wharf-tools`. The command line has the same devices and disciplines:
//! `wharf send`, `wharf receive`, `wharf forward`, `wharf devices`.
#![forbid(unsafe_code)]

// Memory.
#[doc(inline)]
pub use wharf_core::pool::{Audit, Burst, Cache, Packet, PagePool, PoolBuilder, PoolError};
#[doc(inline)]
pub use wharf_mem::{Batch, Frame, MemError, Meta, Region};

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
pub use wharf_core::sender::{AsyncSender, DropTail, Sender, Spread, Watch};

// Receiving, and threads that serve queues.
#[doc(inline)]
pub use wharf_core::poller::{Dedicated, Mode, Settings};
#[doc(inline)]
pub use wharf_core::rx::{Handler, Rest, RxQueue};
#[doc(inline)]
pub use wharf_devices::host::{PollerBuilder, PollerThread};

// Queueing disciplines.
#[doc(inline)]
pub use wharf_core::qdisc::{
    Backpressure, Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Order, Prio, Qdisc, QdiscContext,
    QdiscKind, QdiscRegistry, QdiscSetup, QdiscSpec, Rate, Tbf, WhenFull,
};

// Devices by specification, and the kinds that there are.
#[doc(inline)]
pub use wharf_core::options::{Key, OptionError, Options, Values};
#[doc(inline)]
pub use wharf_devices::registry::{Registry, open};
#[doc(inline)]
pub use wharf_devices::spec::{
    Can, DeviceSpec, Direction, Kind, Opened, Opening, Place, QueueLayout, Queues,
};

// A device of one's own, and the smallest of ours.
#[doc(inline)]
pub use wharf_core::device::{
    AnyDevice, CompletionMode, Completions, Device, DeviceError, Duplex, Notify, RxDevice, Transmitted,
    TxDevice, TxInfo,
};
#[doc(inline)]
pub use wharf_core::{delegate, wrap_device};
#[doc(inline)]
pub use wharf_devices::null::Null;
#[doc(inline)]
pub use wharf_devices::vhost_user::install_sigbus_handler;

// Clocks and ways to wait.
#[doc(inline)]
pub use wharf_core::host::{Clock, Park, Wake};
#[doc(inline)]
pub use wharf_devices::host::{ExactClock, HostClock, HostPark, WakeFd, pin, processors};

#[doc(hidden)]
pub use wharf_core::{
    bql, counters, device, direct, engine, gso, host, options, owner, poller, pool, qdisc, queue, rx, sender,
    sg_writer, small_queue,
};
#[doc(hidden)]
pub use wharf_devices as devices;
#[doc(hidden)]
pub use wharf_mem as mem;
#[doc(hidden)]
pub use wharf_packet as packet;
