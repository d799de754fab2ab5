//! Packets, by hand and beside etherparse: one binary, since each links anew.

mod build;
mod checksum;
mod datagram;
mod ecn;
mod flow;
mod gso;
mod headers;
mod odd;
mod tunnel;
