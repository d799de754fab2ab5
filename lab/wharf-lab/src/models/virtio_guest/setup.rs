//! The settings, the costs and the result of a run.

use serde::Deserialize;
use wharf_sim::flows::tcp::Rules;
use wharf_sim::harness::Timing;

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
    /// Guest: the program reads an answer, or asks.
    pub ask_ns: u64,
    /// Guest: exit to the host for a kick.
    pub kick_ns: u64,
    /// Guest: an interrupt of an idle processor, until its poll begins, and that poll.
    pub interrupt_ns: u64,
    /// Guest: the same of a processor that runs.
    pub interrupt_running_ns: u64,
    /// vhost: carrying one packet out of the guest, and into it.
    pub carry_ns: u64,
    /// vhost: the beginning of a turn at one ring (`handle_tx`, `handle_rx`).
    pub turn_ns: u64,
    /// vhost: extra for a super-packet, whose pages have to be found.
    pub super_ns: u64,
    /// vhost: an interrupt for the guest.
    pub signal_ns: u64,
    /// Waking a thread of the host, on the side of the waker.
    pub wake_ns: u64,
    /// The time until that thread runs.
    pub wake_latency_ns: u64,
    /// Peer: reading one message, or answering it.
    pub answer_ns: u64,
    /// Guest and peer: `epoll_wait`, once for all sockets that it reports. Guest: a packet's completion that wakes it.
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
    /// Seed and times; all times vary.
    pub time: Timing,
}

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    /// Busy time of the guest (host polling included), vhost and the peer.
    pub(super) busy_ns: [u64; 3],
    /// Bytes of streams that the peer has read.
    pub(super) read_bytes: u64,
    /// Packets with a stream's data that have left the guest.
    pub(super) data_packets: u64,
    pub(super) data_bytes: u64,
    pub(super) transmit_interrupts: u64,
    /// Answers; each has its time.
    pub(super) answers: usize,
    /// Packets dropped by the qdisc or the peer's socket.
    pub(super) dropped: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Time measured.
    pub measured_ns: u64,
    /// Busy time of guest, vhost and peer.
    pub busy_ns: u64,
    /// Bytes of streams that the peer has read.
    pub read_bytes: u64,
    /// Packets with a stream's data that left the guest.
    pub data_packets: u64,
    /// Their payload.
    pub data_bytes: u64,
    /// Interrupts of the transmit ring.
    pub transmit_interrupts: u64,
    /// Time of each answer, least first.
    pub answers_ns: Vec<u64>,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

impl Outcome {
    pub(super) fn between(
        measured_ns: u64, before: &Totals, after: &Totals, answers: &[u64], packets_in_all: u64,
    ) -> Self {
        let mut answers_ns = answers[before.answers..after.answers].to_vec();
        answers_ns.sort_unstable();
        Self {
            measured_ns,
            busy_ns: (0..3).map(|at| after.busy_ns[at] - before.busy_ns[at]).sum(),
            read_bytes: after.read_bytes - before.read_bytes,
            data_packets: after.data_packets - before.data_packets,
            data_bytes: after.data_bytes - before.data_bytes,
            transmit_interrupts: after.transmit_interrupts - before.transmit_interrupts,
            answers_ns,
            packets_in_all,
        }
    }

    /// Returns the time within which `permille` thousandths of the answers came; 0 if there were none.
    pub fn answered_within_ns(&self, permille: usize) -> u64 {
        let last = self.answers_ns.len().saturating_sub(1);
        self.answers_ns.get(last * permille / 1000).copied().unwrap_or(0)
    }

    /// Returns the bits per second that the peer has read.
    pub fn bits_per_s(&self) -> u64 {
        (u128::from(self.read_bytes) * 8_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }
}
