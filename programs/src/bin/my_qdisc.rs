//! A queueing discipline of one's own: fair queueing (deficit round robin over 64 flows) that drops packets which have
//! waited too long, as they would leave. `my_qdisc`: three flows fill the queue of a slow wire one after the other.
//!
//! - Each flow has its turn for one quantum of bytes, so a flow that came late is served as soon as one that came first.
//! - The context that comes with each call hashes flows, tells the time, and drops: what is dropped is counted by reason,
//!   and its memory goes home. So `accepted` is always `sent` and `failed` together once the queue is empty.
//! - `backpressure` makes senders wait at the limit; `reserve` adds storage for what their lanes hold.

use std::collections::VecDeque;
use std::time::Duration;
use wharf::{Backpressure, Batch, Direction, Frame, Limit, Path, Qdisc, QdiscContext};

type Error = Box<dyn std::error::Error>;

const FLOWS: usize = 64;
const QUANTUM_BYTES: u64 = 1514;
const TOO_OLD_NS: u64 = 1_000_000_000;
const TIME: Duration = Duration::from_secs(10);

/// Packets of one flow, with the time at which each came.
#[derive(Default)]
struct Flow {
    packets: VecDeque<(Frame, u64)>,
    deficit_bytes: u64,
}

/// The discipline.
struct Fair {
    flows: [Flow; FLOWS],
    /// Flows with packets, the next one first.
    active: VecDeque<usize>,
    len: usize,
    /// Packets from which on senders wait.
    limit: usize,
    /// Packets that fit: the limit, and those of the senders' lanes.
    capacity: usize,
}

impl Fair {
    fn new(limit: usize) -> Self {
        let flows = std::array::from_fn(|_| Flow::default());
        Self { flows, active: VecDeque::with_capacity(FLOWS), len: 0, limit, capacity: limit }
    }

    /// Takes the next packet, with the time at which it came.
    fn pop(&mut self) -> Option<(Frame, u64)> {
        loop {
            let at = *self.active.front()?;
            let flow = &mut self.flows[at];
            let bytes = flow.packets.front().map_or(0, |(frame, _)| u64::from(frame.len_bytes()));
            if flow.deficit_bytes < bytes {
                flow.deficit_bytes += QUANTUM_BYTES;
                self.active.rotate_left(1);
                continue;
            }
            flow.deficit_bytes -= bytes;
            let taken = flow.packets.pop_front();
            if flow.packets.is_empty() {
                flow.deficit_bytes = 0;
                self.active.pop_front();
            }
            self.len -= 1;
            return taken;
        }
    }
}

impl Qdisc for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn reserve(&mut self, frames: usize) {
        self.capacity += frames;
        let capacity = self.capacity;
        self.flows.iter_mut().for_each(|flow| flow.packets.reserve(capacity - flow.packets.len()));
    }

    fn storage(&self) -> usize {
        self.capacity - self.len
    }

    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch) {
        while self.storage() > 0
            && let Some(frame) = from.pop()
        {
            let at = cx.flow_hash(&frame, 0) as usize % FLOWS;
            if self.flows[at].packets.is_empty() {
                self.active.push_back(at);
            }
            self.flows[at].packets.push_back((frame, cx.now_ns()));
            self.len += 1;
        }
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        let (first, mut bytes) = (to.len(), 0);
        while to.room() > 0
            && to.len() - first < limit.packets
            && bytes < limit.bytes.max(1)
            && let Some((frame, came_ns)) = self.pop()
        {
            if cx.now_ns() - came_ns > TOO_OLD_NS {
                cx.drop(frame, "too-old");
                continue;
            }
            bytes += u64::from(frame.len_bytes());
            drop(to.push(frame));
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn backpressure(&self) -> Backpressure {
        Backpressure::of_all(self.limit.saturating_sub(self.len), self.len <= self.limit / 2)
    }

    fn purge(&mut self, to: &mut Batch) {
        while to.room() > 0
            && let Some((frame, _)) = self.pop()
        {
            drop(to.push(frame));
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.flows.iter().flat_map(|flow| &flow.packets).for_each(|(frame, _)| see(frame));
    }
}

// The rest tries it out.

fn main() -> Result<(), Error> {
    let builder = Path::builder("wire:rate=8mbit", Direction::Send);
    let path = builder.qdisc(Fair::new(4000)).small_queues(None).build()?;
    let (flows, packets) = (3, 1000);
    let mut sender = path.sender("all flows")?;
    for flow in 0..flows {
        for number in 0..packets {
            let mut packet = sender.packet(500)?;
            write(packet.bytes_mut(), flow, number);
            sender.send_packet(packet)?;
        }
    }
    let arrived = arrived(&path.far_end()?, || {
        path.queue().is_ok_and(|queue| {
            let counters = queue.counters();
            counters.gone() == counters.accepted.get() && counters.accepted.get() == 3000
        })
    })?;
    drop(sender);
    let (audit, counters) = (path.close(TIME), path.queue()?.counters());
    let (accepted, sent) = (counters.accepted.get(), counters.sent.get());
    let dropped =
        counters.failures().iter().find(|failure| failure.0 == "too-old").map_or(0, |failure| failure.1);
    println!("{accepted} accepted, {sent} sent, {dropped} too old");
    let all = u64::from(flows) * u64::from(packets);
    if accepted != all
        || sent + dropped != all
        || dropped == 0
        || sent != arrived.len() as u64
        || audit.out() > 0
    {
        return Err(format!("packets lost: {} arrived, {audit}", arrived.len()).into());
    }
    check(&arrived, flows)
}

/// Writes a datagram of `flow`, by its source port, that carries `number`.
fn write(packet: &mut [u8], flow: u8, number: u16) {
    packet.fill(0);
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[16..18].copy_from_slice(&486u16.to_be_bytes());
    (packet[23], packet[35]) = (17, flow);
    packet[42..44].copy_from_slice(&number.to_be_bytes());
}

/// Receives until `is_over`. Returns flow and number of each packet.
fn arrived(far_end: &Path, is_over: impl Fn() -> bool) -> Result<Vec<(u8, u16)>, Error> {
    let (mut receiver, mut burst, mut arrived) = (far_end.receiver()?, far_end.burst(64), Vec::new());
    loop {
        let was_over = is_over();
        let count = receiver.recv_within(&mut burst, Duration::from_millis(50))?;
        arrived.extend(
            burst.iter_mut().map(|packet| (packet[35], u16::from_be_bytes([packet[42], packet[43]]))),
        );
        burst.clear();
        if count == 0 && was_over {
            return Ok(arrived);
        }
    }
}

/// Each flow is in order, and has its share of what leaves from the last one's first packet on.
fn check(arrived: &[(u8, u16)], flows: u8) -> Result<(), Error> {
    let together: Vec<u8> =
        arrived.iter().map(|packet| packet.0).skip_while(|&flow| flow < flows - 1).collect();
    for flow in 0..flows {
        let own: Vec<u16> = arrived.iter().filter(|packet| packet.0 == flow).map(|packet| packet.1).collect();
        let share = together.iter().take(300).filter(|&&of| of == flow).count();
        println!("flow {flow}: {} arrived, {share} of 300 that left together", own.len());
        if !own.is_sorted() || share.abs_diff(100) > 10 {
            return Err("not in order, or not fair".into());
        }
    }
    Ok(())
}
