//! Wharf: a packet transmit path for Linux user space.
//!
//! Many threads hand it packets; it queues them, takes them out in bulk within a limit that it learns by
//! itself, gives each batch to the device in one call with one doorbell, collects completions, and gives the
//! memory back where it came from. A sender that is too fast waits, and is woken in turn; nothing is dropped
//! in silence.
//!
//! # Quick start
//!
//! A packet's way from a pool, through a sender and its queue, over a device and back home. The device here
//! is a wire whose far end is in this process; [`devices::open`] makes others from specifications.
//!
//! ```
//! use std::sync::Arc;
//! use wharf::devices::host::{HostClock, HostPark, PollerThread};
//! use wharf::devices::open::{Direction, open};
//! use wharf::mem::Batch;
//! use wharf::pool::PagePool;
//! use wharf::queue::TxQueue;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Memory: 4096 frames of 2 KiB. The queue: FIFO of 1000 packets, byte queue limit, batching on.
//! let pool = PagePool::builder().build()?;
//! let wire = open("wire", Direction::Send)?;
//! let queue = TxQueue::builder(&pool, wire.device, Arc::new(HostClock), Arc::new(HostPark)).build()?;
//! let _poller = PollerThread::start(&queue)?; // takes completions when no sender is there to
//!
//! // One sender per thread. Packets go out in bursts, each in one call; `send` waits where it must.
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
//! # Where to find what
//!
//! | | |
//! |---|---|
//! | memory: pools, packets, bursts, who holds what | [`pool`] |
//! | a transmit queue and its senders | [`queue`], [`sender`] |
//! | senders that wait as tasks (any runtime) or in a poll loop | [`sender::AsyncSender`], [`sender::Sender::watch`] |
//! | a device with several transmit queues: each flow by one of them | [`sender::Spread`], [`packet::QueueMap`] |
//! | one sender that owns its path outright: no lane, no other thread | [`direct`] |
//! | who looks after queues when no sender does; a core for one alone | [`poller`], [`devices::host::PollerThread`] |
//! | the receive side of devices, in pollers' hands | [`rx`] |
//! | FIFO and priority bands | [`qdisc`] |
//! | byte queue limits, batching on, off or by bytes | [`bql`], [`engine`] |
//! | what was done, by queue and sender | [`counters`] |
//! | devices: by specification, or your own | [`devices`], [`device`] |
//! | super-packets: one packet until a device that cannot cut them | [`gso`] |
//! | captures to replay, packets to generate, receivers that check | [`tools::traffic`] |
//! | clocks and threads, real or modelled | [`host`], [`devices::host`] |
//!
//! The same from the command line: `wharf send`, `wharf receive`, `wharf bench path`, `wharf devices`.
#![forbid(unsafe_code)]

pub use wharf_core::{
    bql, counters, device, direct, engine, gso, host, options, owner, poller, pool, qdisc, queue, rx, sender,
    sg_writer, small_queue,
};
pub use wharf_core::{delegate, wrap_device};
pub use wharf_devices as devices;
pub use wharf_mem as mem;
pub use wharf_packet as packet;
pub use wharf_tools as tools;
