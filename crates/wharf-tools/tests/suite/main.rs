//! Tools around devices and paths: one binary, since each links anew.

mod fault;
mod gso;
mod pacing;
mod virtio_echo;
