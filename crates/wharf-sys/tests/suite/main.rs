//! Calls, mappings and shared memory by their public interface: one binary, since each links anew.

mod clock;
mod credentials;
mod epoll;
mod event;
mod guard;
mod interface;
mod mapping;
mod shared;
mod stream;
mod thread;
mod udp;
mod xdp_ring;
