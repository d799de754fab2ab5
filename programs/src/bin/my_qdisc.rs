//! A queueing discipline of one's own: fair queueing (deficit round robin over 64 flows) that drops packets which have
//! waited too long, as they would leave. `my_qdisc`: three flows fill the queue of a wire one after the other.
//!
//! - Each flow has its turn for one quantum of bytes, so a flow that came late is served as soon as one that came first.
//! - The context that comes with each call hashes flows, tells the time, and drops: what is dropped is counted by reason,
//!   and its memory goes home. So `accepted` is always `sent` and `failed` together once the queue is empty.
//! - `backpressure` makes senders wait at the limit; `reserve` adds storage for what their lanes hold.

use std::collections::VecDeque;
use std::time::Duration;
use wharf::device::{Batch, Frame};
use wharf::qdisc::{Backpressure, Limit, Qdisc, QdiscContext};
use wharf::{Direction, Port, Wait};

type Error = Box<dyn std::error::Error>;

const FLOWS: usize = 64;
const QUANTUM_BYTES: u64 = 1514;
const SECOND: Duration = Duration::from_secs(1);

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
    too_old_ns: u64,
}

impl Fair {
    fn new(limit: usize, too_old: Duration) -> Self {
        let (flows, active) = (std::array::from_fn(|_| Flow::default()), VecDeque::with_capacity(FLOWS));
        Self { flows, active, len: 0, limit, capacity: limit, too_old_ns: too_old.as_nanos() as u64 }
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
            if cx.now_ns() - came_ns > self.too_old_ns {
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

const SENT_BY_EACH: u16 = 1000;
const SENDING_FLOWS: u8 = 3;

fn main() -> Result<(), Error> {
    let (arrived, dropped) = through(Fair::new(4000, 1000 * SECOND))?;
    if dropped > 0 {
        return Err(format!("{dropped} of the young packets dropped").into());
    }
    check(&arrived)?;
    // Packets in the device are not dropped any more.
    let (arrived, dropped) = through(Fair::new(4000, Duration::from_millis(1)))?;
    println!("{} arrived, {dropped} too old", arrived.len());
    if dropped < 2000 { Err("the old packets left".into()) } else { Ok(()) }
}

/// Sends all packets while nothing is received, so that they wait in `fair`, and then receives them. Returns those that
/// arrive, and the number of those dropped.
fn through(fair: Fair) -> Result<(Vec<(u8, u16)>, u64), Error> {
    let path = Port::builder("wire", Direction::Send).qdisc(fair).small_queues(None).build()?;
    let far_end = path.far_end()?;
    let mut sender = path.sender("all flows")?;
    for flow in 0..SENDING_FLOWS {
        for number in 0..SENT_BY_EACH {
            let mut packet = sender.packet(500, Wait::Never)?;
            write(packet.bytes_mut(), flow, number);
            _ = sender.send_packet(packet, Wait::Forever)?;
        }
    }
    std::thread::sleep(Duration::from_millis(10));
    let (all, counters) = (u64::from(SENDING_FLOWS) * u64::from(SENT_BY_EACH), path.queue()?.counters());
    let arrived = arrived(&far_end, || counters.gone() == all)?;
    drop(sender);
    let (audit, failures) = (path.close(SECOND), counters.failures());
    let dropped = failures.iter().find(|failure| failure.0 == "too-old").map_or(0, |failure| failure.1);
    let (accepted, sent) = (counters.accepted.get(), counters.sent.get());
    if [accepted, sent + dropped] != [all; 2] || sent != arrived.len() as u64 || audit.out() > 0 {
        return Err(
            format!("{accepted} accepted, {sent} sent, {failures:?}, {} arrived", arrived.len()).into()
        );
    }
    Ok((arrived, dropped))
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
fn arrived(far_end: &Port, is_over: impl Fn() -> bool) -> Result<Vec<(u8, u16)>, Error> {
    let (mut receiver, mut burst, mut arrived) = (far_end.receiver()?, far_end.burst(64), Vec::new());
    loop {
        let was_over = is_over();
        let count = receiver.recv(&mut burst, Duration::from_millis(50))?;
        arrived.extend(
            burst.iter_mut().map(|packet| (packet[35], u16::from_be_bytes([packet[42], packet[43]]))),
        );
        burst.clear();
        if count == 0 && was_over {
            return Ok(arrived);
        }
    }
}

/// Each flow is in order, and has its share of what leaves first, though the others' packets came all before the last one's.
fn check(arrived: &[(u8, u16)]) -> Result<(), Error> {
    for flow in 0..SENDING_FLOWS {
        let own: Vec<u16> = arrived.iter().filter(|packet| packet.0 == flow).map(|packet| packet.1).collect();
        let early = arrived.iter().take(900).filter(|packet| packet.0 == flow).count();
        println!("flow {flow}: {} arrived, {early} of the first 900", own.len());
        if !own.is_sorted() || early.abs_diff(300) > 30 {
            return Err("not in order, or not fair".into());
        }
    }
    Ok(())
}
