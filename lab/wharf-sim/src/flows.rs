//! Sources of traffic for virtual time: TCP, requests and responses, UDP, and the times of bursts.
//!
//! `smoltcp`, the tests' second opinion on goodput, has neither segmentation offload nor small queues. So
//! [`tcp`] is our own. It models the decisions of a kernel's TCP (the amount that leaves, in pieces of which
//! size, and when it holds back), not the contents of packets. A source is a state machine that is told of
//! events and their times. It owns no packets, reads no clock and makes no events.

pub mod arrivals;
mod ranges;
mod round_trip;
pub mod tcp;
pub mod udp;

pub use ranges::Ranges;
