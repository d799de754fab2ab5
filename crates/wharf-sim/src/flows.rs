//! Sources of traffic for virtual time: TCP, requests and responses, UDP.
//!
//! `smoltcp`, which the tests take as a second opinion on goodput, has neither segmentation offload nor small queues;
//! so [`tcp`] is our own: what a kernel's TCP decides (how much leaves, in how large pieces, when it holds back), and
//! nothing of what its packets look like. A source is a state machine that is told what happened and when; it owns no
//! packets, reads no clock and makes no events of its own. [`path`] carries one from end to end over a wire.

pub mod path;
mod ranges;
mod round_trip;
pub mod tcp;
pub mod udp;

pub use ranges::Ranges;
