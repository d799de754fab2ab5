//! `xdp:` on real interfaces: each test in a network of its own, with a pair of virtual interfaces.

mod beside;
mod checksum;
mod endings;
mod receiving;
mod rings;
mod sending;
