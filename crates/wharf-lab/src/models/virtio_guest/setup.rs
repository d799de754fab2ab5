//! What is run, and what it costs.

use wharf_sim::flows::tcp::Rules;

/// When the driver frees what the host has taken, and whether sockets are told before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// At the next transmit; sockets are told as a packet enters the ring (`skb_orphan`).
    Upstream,
    /// By a timer as well, every so many nanoseconds; sockets are told then.
    Timer {
        /// How often.
        every_ns: u64,
    },
    /// When an interrupt of either ring is polled for; sockets are told then.
    Napi,
}

/// What programs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Write as long as there is room.
    TcpStream {
        /// A write.
        write_bytes: u32,
    },
    /// Send datagrams as long as there is room.
    UdpStream {
        /// Of each.
        datagram_bytes: u32,
    },
    /// Ask, and ask again once the answer has come.
    Requests {
        /// Length of question and answer.
        bytes: u32,
        /// TCP, or UDP.
        tcp: bool,
    },
}

/// What steps take, in nanoseconds; what bytes take, in picoseconds each.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Guest: a write or a datagram, down to the socket, apart from copying.
    pub write_ns: u64,
    /// Guest: TCP's part in sending a piece.
    pub send_ns: u64,
    /// Guest: qdisc, `start_xmit` and a buffer in the ring.
    pub xmit_ns: u64,
    /// Guest: a buffer that is freed.
    pub free_ns: u64,
    /// Guest: receiving one packet, up to the socket.
    pub receive_ns: u64,
    /// Guest: the program reads an answer and asks again.
    pub ask_ns: u64,
    /// Guest: leaving to the host for a kick.
    pub kick_ns: u64,
    /// Guest: an interrupt, until its poll begins, and that poll.
    pub interrupt_ns: u64,
    /// vhost: carrying one packet out of the guest, and into it.
    pub carry_ns: u64,
    /// vhost: more for one that is more than a packet on the wire, since its pages have to be found.
    pub super_ns: u64,
    /// vhost: an interrupt for the guest.
    pub signal_ns: u64,
    /// Whoever wakes a thread of the host.
    pub wake_ns: u64,
    /// Until such a thread runs.
    pub wake_latency_ns: u64,
    /// Peer: reading one message and answering it.
    pub answer_ns: u64,
    /// Guest and peer: finding out who may be read, once for all that may (`epoll_wait`).
    pub find_ns: u64,
    /// An acknowledgement by itself, for who makes it.
    pub ack_ns: u64,
    /// Guest and peer: copying between program and stack.
    pub copy_ps_per_byte: u64,
    /// vhost: copying, of TCP's super-packets.
    pub carry_ps_per_byte: u64,
    /// vhost: copying, of datagrams.
    pub datagram_ps_per_byte: u64,
    /// vhost: more for each byte of a stream whose data is no longer in the cache.
    pub cold_ps_per_byte: u64,
    /// How many streams' data the cache holds.
    pub cache_flows: u64,
    /// The host polls for an idle virtual processor so long.
    pub halt_poll_ns: u64,
    /// Until a virtual processor that was polled for runs; until one that was not does.
    pub poll_exit_ns: u64,
    /// The same for one that sleeps.
    pub halt_exit_ns: u64,
}

/// What is run, and for how long.
#[derive(Debug, Clone)]
pub struct Setup {
    /// When buffers are freed.
    pub release: Release,
    /// What programs do.
    pub traffic: Traffic,
    /// How many.
    pub flows: usize,
    /// What TCP goes by.
    pub rules: Rules,
    /// What a socket may have unacknowledged or, for datagrams, under way.
    pub send_buffer_bytes: u64,
    /// Datagrams that the peer has not read.
    pub receive_buffer_bytes: u64,
    /// Descriptors of the ring, a packet each (indirect ones); a power of two.
    pub ring_descriptors: u16,
    /// Packets that the qdisc takes.
    pub qdisc_packets: usize,
    /// What steps cost.
    pub costs: Costs,
    /// Thousandths by which all of that varies, either way.
    pub jitter_permille: u64,
    /// Of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}
