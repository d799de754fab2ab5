//! The limits of a server's parts.

use super::Question;
use crate::nics::{Cost, Figure, Nic, ONE, Way};
use serde::{Deserialize, Serialize};

const PICOSECONDS: u128 = 1_000_000_000_000;
const NANOSECONDS: u128 = 1_000_000_000;

/// The direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Sent.
    Tx,
    /// Received.
    Rx,
    /// Both at the same time, the same number each way.
    Both,
}

impl Direction {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Tx, Self::Rx, Self::Both];

    /// Returns its name in options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Both => "both",
        }
    }
}

/// A part that may limit a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The line.
    Wire,
    /// The bus towards the NIC.
    BusToNic,
    /// The bus towards the host.
    BusToHost,
    /// Reads in flight.
    Tags,
    /// Reads of descriptors, queue by queue.
    DescriptorFetch,
    /// Processors that only ring doorbells.
    Doorbells,
    /// Processors.
    Cpu,
    /// Pages for packets.
    Memory,
    /// Doorbells and entries that the NIC serves, one after the other.
    Nic,
}

impl Part {
    /// All, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Wire,
        Self::BusToNic,
        Self::BusToHost,
        Self::Tags,
        Self::DescriptorFetch,
        Self::Doorbells,
        Self::Cpu,
        Self::Memory,
        Self::Nic,
    ];

    /// Returns its name in reports and tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::BusToNic => "bus towards the NIC",
            Self::BusToHost => "bus towards the host",
            Self::Tags => "reads in flight (tags)",
            Self::DescriptorFetch => "descriptor fetch",
            Self::Doorbells => "doorbells",
            Self::Cpu => "processors",
            Self::Memory => "memory allocator",
            Self::Nic => "NIC's own rate",
        }
    }

    /// Returns the counter, or the observation, that confirms it as the limit on a machine, with `IF` for the interface.
    /// `is_mlx5` chooses the counters of that driver.
    pub fn confirmed_by(self, is_mlx5: bool) -> &'static str {
        match self {
            Self::Wire => "`/sys/class/net/IF/statistics/tx_bytes`, `rx_bytes`: their rate is the wire's",
            Self::BusToNic | Self::Tags if is_mlx5 => {
                "`ethtool -S IF`, `outbound_pci_stalled_rd`: percent of a second in which reads waited for the bus"
            }
            Self::BusToHost if is_mlx5 => {
                "`ethtool -S IF`, `outbound_pci_stalled_wr` (percent of a second) and `outbound_pci_buffer_overflow`"
            }
            Self::BusToNic | Self::BusToHost | Self::Tags => {
                "bandwidth of the port on the root complex (`pcm-iio`, uncore events of `perf`), and `rx_missed_errors`"
            }
            Self::DescriptorFetch => "a rate that grows with the number of queues, while processors are idle",
            Self::Doorbells => {
                "`perf annotate` of the driver's transmit function: time at the write to the doorbell"
            }
            Self::Cpu if is_mlx5 => {
                "`mpstat -P ALL 1`: no idle time; receiving, `ethtool -S IF`, `rx_out_of_buffer`"
            }
            Self::Cpu => {
                "`mpstat -P ALL 1`: no idle time; receiving, `rx_missed_errors` or `rx_no_buffer_count`"
            }
            Self::Memory => "`perf top`: `native_queued_spin_lock_slowpath` under `get_page_from_freelist`",
            Self::Nic => {
                "the rate stays while bus and processors have room, and rises with fewer doorbells; no counter tells"
            }
        }
    }
}

/// The packet rate that a part allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The part.
    pub part: Part,
    /// Packets a second, each way if both are asked for; `None` if packets do not use it.
    pub pps: Option<u64>,
}

/// The outcome for one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The direction.
    pub direction: Direction,
    /// The cost of a packet; for both directions, of one each.
    pub cost: Cost,
    /// The limits of all parts, in the order of [`Part::ALL`].
    pub limits: Vec<Limit>,
    /// The least of them.
    pub binding: Part,
    /// That limit in packets a second, each way if both are asked for.
    pub pps: u64,
}

impl Outcome {
    /// Computes one direction.
    pub(super) fn new(nic: &Nic, question: &Question, direction: Direction) -> Self {
        let parts = Costs::new(nic, question, direction);
        let limits: Vec<Limit> =
            Part::ALL.into_iter().map(|part| Limit { part, pps: parts.allow(part) }).collect();
        let least =
            limits.iter().filter_map(|limit| Some((limit.pps?, limit.part))).min_by_key(|limit| limit.0);
        let (pps, binding) = least.unwrap_or((u64::MAX, Part::Wire));
        Self { direction, cost: parts.cost, limits, binding, pps }
    }

    /// Returns the limit of `part`.
    pub fn limit(&self, part: Part) -> Option<u64> {
        self.limits.iter().find(|limit| limit.part == part)?.pps
    }
}

/// The costs of a packet to each part.
struct Costs<'a> {
    nic: &'a Nic,
    question: &'a Question,
    cost: Cost,
    /// Those of the direction with more of them: each has queues of its own.
    fetches: u64,
    /// Processor time, without doorbells.
    cycles: u64,
    /// Cycles and shared nanoseconds of its pages, in billionths.
    pages: (u128, u128),
}

impl<'a> Costs<'a> {
    fn new(nic: &'a Nic, question: &'a Question, direction: Direction) -> Self {
        let ways = match direction {
            Direction::Tx => vec![&nic.tx],
            Direction::Rx => vec![&nic.rx],
            Direction::Both => vec![&nic.tx, &nic.rx],
        };
        let costs: Vec<Cost> =
            ways.iter().map(|way| question.load.cost(|size| way.cost(&nic.link, size))).collect();
        let pages = |of: fn(&Way) -> &Figure| {
            ways.iter()
                .zip(&costs)
                .map(|(way, cost)| u128::from(of(way).value) * u128::from(cost.pages))
                .sum()
        };
        Self {
            nic,
            question,
            pages: (pages(|way| &way.page_cycles), pages(|way| &way.page_shared_ns)),
            cost: costs.iter().fold(Cost::default(), |sum, cost| sum + *cost),
            fetches: costs.iter().map(|cost| cost.fetches).max().unwrap_or(0),
            cycles: ways.iter().map(|way| way.cpu_cycles.value).sum(),
        }
    }

    fn allow(&self, part: Part) -> Option<u64> {
        let (nic, cost) = (self.nic, &self.cost);
        let bus =
            |bytes| rate(u128::from(nic.link.tlp_bits_per_second()) * u128::from(ONE), 8 * u128::from(bytes));
        let cores = u128::from(self.question.cores);
        let per_latency = |number: u128, each: u64| {
            rate(number * NANOSECONDS * u128::from(ONE), u128::from(nic.latency_ns.value) * u128::from(each))
        };
        match part {
            Part::Wire => self.wire(),
            Part::BusToNic => bus(cost.to_nic_bytes),
            Part::BusToHost => bus(cost.to_host_bytes),
            Part::Tags => per_latency(nic.tags.value.into(), cost.reads),
            Part::DescriptorFetch => {
                let queues = cores.min(nic.queues.value.into());
                per_latency(queues * u128::from(nic.fetches_in_flight.value), self.fetches)
            }
            Part::Doorbells => rate(cores * PICOSECONDS, self.doorbell_ps()),
            Part::Cpu => rate(cores * PICOSECONDS, self.cycles_ps(self.cycles.into()) + self.doorbell_ps()),
            Part::Memory => self.memory(),
            Part::Nic => rate(PICOSECONDS * u128::from(ONE), cost.nic_ps.into()),
        }
    }

    fn wire(&self) -> Option<u64> {
        let overhead = self.nic.wire_overhead_bytes.value * ONE;
        let bytes = u128::from(self.question.load.packet_bytes() + overhead);
        rate(u128::from(self.nic.wire_bits_per_second.value) * u128::from(ONE), 8 * bytes)
    }

    /// Returns the limit of taking pages from each processor's own stock, and under a lock that all share.
    fn memory(&self) -> Option<u64> {
        let (cycles, shared_ns) = self.pages;
        let own =
            rate(u128::from(self.question.cores) * PICOSECONDS * u128::from(ONE), self.cycles_ps(cycles));
        let shared = rate(NANOSECONDS * u128::from(ONE), shared_ns);
        own.into_iter().chain(shared).min()
    }

    fn cycles_ps(&self, cycles: u128) -> u128 {
        cycles * 1_000_000 / u128::from(self.nic.clock_mhz.value)
    }

    fn doorbell_ps(&self) -> u128 {
        u128::from(self.nic.doorbell_ns.value) * u128::from(self.cost.doorbells) / (u128::from(ONE) / 1000)
    }
}

/// Returns `number / each`, rounded down; `None` if each costs nothing.
fn rate(number: u128, each: u128) -> Option<u64> {
    (each > 0).then(|| u64::try_from(number / each).unwrap_or(u64::MAX))
}
