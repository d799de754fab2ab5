//! Devices against the kernel, plain sockets, peers of the test's own and each other: one binary, since each links anew.
//!
//! `packet`, `tap` and `xdp` want root; `./test interfaces` runs them.

mod disciplines;
mod doctor;
mod host_wait;
mod net;
mod packet;
mod pcap;
mod polling;
mod reopen;
mod requirements;
mod supers;
mod tap;
mod thinning;
mod udp;
mod vhost_user;
mod virtio;
mod virtio_user;
mod vnet;
mod wire;
mod wire_path;
mod xdp;
