//! The settings of a run, and its costs.

use serde::Deserialize;
use wharf_sim::flows::tcp::Rules;

/// The time at which the driver frees used buffers, and at which sockets are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// At the next transmit; sockets are told as a packet enters the ring (`skb_orphan`).
    Upstream,
    /// Also by a timer, every `every_ns`; sockets are told then.
    Timer {
        /// The timer's interval.
        every_ns: u64,
    },
    /// In the poll of an interrupt of either ring; sockets are told then.
    Napi,
}

/// The work of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Write as long as there is room.
    TcpStream {
        /// Bytes of a write.
        write_bytes: u32,
    },
    /// Send datagrams as long as there is room.
    UdpStream {
        /// Bytes of a datagram.
        datagram_bytes: u32,
    },
    /// Request, and request again after the answer.
    Requests {
        /// Length of request and answer.
        bytes: u32,
        /// True for TCP, false for UDP.
        tcp: bool,
    },
}

/// Times of the steps in nanoseconds, and of bytes in picoseconds each.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// Guest: a write or a datagram, down to the socket, without copying.
    pub write_ns: u64,
    /// Guest: TCP's part in sending a piece.
    pub send_ns: u64,
    /// Guest: qdisc, `start_xmit` and a buffer in the ring.
    pub xmit_ns: u64,
    /// Guest: freeing a buffer.
    pub free_ns: u64,
    /// Guest: receiving one packet, up to the socket.
    pub receive_ns: u64,
    /// Guest: the program reads an answer and asks again.
    pub ask_ns: u64,
    /// Guest: exit to the host for a kick.
    pub kick_ns: u64,
    /// Guest: an interrupt, until its poll begins, and that poll.
    pub interrupt_ns: u64,
    /// vhost: carrying one packet out of the guest, and into it.
    pub carry_ns: u64,
    /// vhost: extra for a super-packet, whose pages have to be found.
    pub super_ns: u64,
    /// vhost: an interrupt for the guest.
    pub signal_ns: u64,
    /// Waking a thread of the host, on the side of the waker.
    pub wake_ns: u64,
    /// The time until that thread runs.
    pub wake_latency_ns: u64,
    /// Peer: reading one message and answering it.
    pub answer_ns: u64,
    /// Guest and peer: finding the readable sockets, once for all (`epoll_wait`).
    pub find_ns: u64,
    /// An acknowledgement by itself, on the side of its sender.
    pub ack_ns: u64,
    /// Guest and peer: copying between program and stack.
    pub copy_ps_per_byte: u64,
    /// vhost: copying, of TCP's super-packets.
    pub carry_ps_per_byte: u64,
    /// vhost: copying, of datagrams.
    pub datagram_ps_per_byte: u64,
    /// vhost: extra per byte of a stream whose data are no longer in the cache.
    pub cold_ps_per_byte: u64,
    /// Streams whose data the cache holds.
    pub cache_flows: u64,
    /// The time for which the host polls for an idle virtual processor.
    pub halt_poll_ns: u64,
    /// The time until a virtual processor that was polled for runs.
    pub poll_exit_ns: u64,
    /// The same for one that sleeps.
    pub halt_exit_ns: u64,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The time at which buffers are freed.
    pub release: Release,
    /// The work of programs.
    pub traffic: Traffic,
    /// Number of programs.
    pub flows: usize,
    /// The settings of TCP.
    pub rules: Rules,
    /// Bytes that a socket may have unacknowledged or, for datagrams, in flight.
    pub send_buffer_bytes: u64,
    /// Bytes of datagrams that the peer has not read.
    pub receive_buffer_bytes: u64,
    /// Descriptors of the ring, a packet each (indirect ones); a power of two.
    pub ring_descriptors: u16,
    /// Packets that the qdisc holds.
    pub qdisc_packets: usize,
    /// Times of the steps.
    pub costs: Costs,
    /// Thousandths by which all times vary, either way.
    pub jitter_permille: u64,
    /// Seed of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}
