//! `xdp:` on real interfaces: each test in a network of its own, with a pair of virtual interfaces.

mod beside;
mod checksum;
mod endings;
mod queues;
mod receiving;
mod rings;
mod sending;
mod steering;
