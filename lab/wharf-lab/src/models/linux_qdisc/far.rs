//! The far host of TCP streams: the time of receiving there, and the wait of acknowledgements for it.
//!
//! Assumptions: its first processor takes all packets off the NIC in a softirq. Each stream has a process,
//! spread over the processors as here and never moved. A packet for a sleeping process wakes it. The process
//! then reads all packets that have come by the time it runs, and acknowledges one packet in two (with
//! `tcp_prequeue` of that time the process answers). Packets that come before it begins to read are read in
//! the same call. Softirqs go before processes. Goal: the times at which answers leave, from the times at
//! which packets come. Nothing here needs an event: later packets never delay earlier ones, except for a read
//! that is about to begin.

/// Times of the steps there, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// An interrupt, if the softirq was idle.
    pub interrupt_ns: u64,
    /// A packet from the driver to its socket, with half an acknowledgement's way back.
    pub receive_ns: u64,
    /// Waking a process, in the softirq.
    pub wake_ns: u64,
    /// Switching to it.
    pub switch_ns: u64,
    /// A call that reads.
    pub read_ns: u64,
    /// A packet of it: its copy, and half an acknowledgement.
    pub packet_ns: u64,
}

/// One process that reads.
#[derive(Debug, Clone, Copy, Default)]
struct Reader {
    cpu: usize,
    /// The beginning of its last read.
    begins_ns: u64,
    ends_ns: u64,
}

/// The host.
#[derive(Debug)]
pub struct FarHost {
    costs: Costs,
    /// The end of the softirq's work, and of the work of each processor's processes.
    softirq_ends_ns: u64,
    cpus_end_ns: Vec<u64>,
    readers: Vec<Reader>,
}

impl FarHost {
    /// Creates a host with a process for each stream, that of stream n on the n-th processor behind the
    /// first.
    pub fn new(costs: Costs, cpus: usize, streams: usize) -> Self {
        let reader = |number: usize| Reader { cpu: (number + 1) % cpus, ..Reader::default() };
        let readers = (0..streams).map(reader).collect();
        Self { costs, softirq_ends_ns: 0, cpus_end_ns: vec![0; cpus], readers }
    }

    /// Receives `packets` of `stream` at `now_ns`; calls come in order of time. Returns the time at which
    /// their acknowledgement leaves.
    pub fn receives(&mut self, stream: usize, packets: u32, now_ns: u64) -> u64 {
        let Self { costs, readers, cpus_end_ns, .. } = self;
        let packets = u64::from(packets);
        let reader = &mut readers[stream];
        let begins_ns = self.softirq_ends_ns.max(now_ns);
        let idle_ns = if self.softirq_ends_ns < now_ns { costs.interrupt_ns } else { 0 };
        let received_ns = begins_ns + idle_ns + packets * costs.receive_ns;
        let sleeps = reader.ends_ns <= received_ns;
        let woken_ns = received_ns + if sleeps { costs.wake_ns } else { 0 };
        // The softirq has taken its processor from the process that runs there.
        cpus_end_ns[0] = cpus_end_ns[0].max(begins_ns) + woken_ns - begins_ns;
        self.softirq_ends_ns = woken_ns;
        let cpu_ends_ns = &mut cpus_end_ns[reader.cpu];
        if sleeps || reader.begins_ns < received_ns {
            let switch_ns = if sleeps { costs.switch_ns } else { 0 };
            reader.begins_ns = woken_ns.max(*cpu_ends_ns) + switch_ns;
            reader.ends_ns = reader.begins_ns + costs.read_ns;
            *cpu_ends_ns = reader.ends_ns;
        }
        reader.ends_ns += packets * costs.packet_ns;
        *cpu_ends_ns += packets * costs.packet_ns;
        reader.ends_ns
    }
}
