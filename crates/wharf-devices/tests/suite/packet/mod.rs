//! `packet:` on real interfaces: each test in a network of its own, with a pair of virtual interfaces.

mod endings;
mod offloads;
mod polling;
mod receiving;
mod segments;
mod sending;
mod work;
