//! A switch over wires in virtual time, beside a naive model: each frame arrives where it should, and nowhere
//! else.

use super::*;
use crate::forward::pass::Unsent;
use crate::testing::Virtual;
use crate::{Port, Wait};
use proptest::prelude::*;
use std::collections::HashMap;
use wharf_core::pool::PagePool;
use wharf_core::rx::Receiver;
use wharf_core::sender::Sender;

const MS: Duration = Duration::from_millis(1);
const ALL: [u8; 6] = [0xff; 6];

/// Addresses, tag, number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    to: [u8; 6],
    from: [u8; 6],
    tag: Option<u16>,
    number: u32,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.to, self.from].concat();
        if let Some(tag) = self.tag {
            bytes.extend([0x81, 0x00]);
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend([0x88, 0xb5]);
        bytes.extend(self.number.to_be_bytes());
        bytes.resize(64, 0);
        bytes
    }

    fn read(bytes: &[u8]) -> Self {
        let address = |at: usize| bytes[at..at + 6].try_into().unwrap();
        let tag = (bytes[12..14] == [0x81, 0x00]).then(|| u16::from_be_bytes([bytes[14], bytes[15]]));
        let at = if tag.is_some() { 18 } else { 14 };
        let number = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        Self { to: address(0), from: address(6), tag, number }
    }
}

struct Rig {
    time: Virtual,
    switch: Arc<Switch>,
    pool: PagePool,
    near: Vec<Port>,
    far: Vec<Port>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    counts: Vec<Arc<Counts>>,
    sent: u64,
}

impl Rig {
    fn new(vlans: &[Vlans], settings: &ForwardSettings) -> Self {
        let (time, switch) = (Virtual::new(), Switch::new());
        let pool = PagePool::builder().frames(8192).huge_pages(false).build().unwrap();
        let near: Vec<Port> = vlans
            .iter()
            .map(|_| time.builder("wire").pool(&pool).takes_chains(true).build().unwrap())
            .collect();
        let far: Vec<Port> = near.iter().map(|port| port.far_end().unwrap()).collect();
        let member = |(port, vlans): (&Port, &Vlans)| Member {
            name: port.name().into(),
            vlans: vlans.clone(),
            queues: vec![port.queue().unwrap().clone()],
            own: Vec::new(),
        };
        for (at, member) in near.iter().zip(vlans).map(member).enumerate() {
            switch.join(at, member, settings).unwrap();
        }
        let activity = Arc::default();
        let handled = near.iter().enumerate().map(|(at, port)| {
            let clock = time.clock();
            let (handler, counts) = switch.handler(at, settings, &pool, clock, &activity).unwrap();
            port.on_receive(handler).unwrap();
            counts
        });
        let counts = handled.collect();
        let senders = far.iter().map(|port| port.sender("test").unwrap()).collect();
        let receivers = far.iter().map(|port| port.served_receiver().unwrap()).collect();
        Self { time, switch, pool, near, far, senders, receivers, counts, sent: 0 }
    }

    fn send(&mut self, port: usize, frame: Frame) {
        let bytes = frame.bytes();
        let mut packet = self.senders[port].packet(bytes.len() as u32, Wait::Never).unwrap();
        packet.bytes_mut().copy_from_slice(&bytes);
        assert_eq!(self.senders[port].send_packet(packet, MS).unwrap().dropped, 0);
        self.sent += 1;
    }

    /// Has frames come in at a port as one burst, by a handler of their own.
    fn pass(&mut self, port: usize, frames: &[Frame]) {
        let (clock, activity) = (self.time.clock(), Arc::default());
        let handler = self.switch.handler(port, &settings(), &self.pool, clock, &activity);
        let ((mut handler, counts), near) = (handler.unwrap(), &self.near[port]);
        let (mut memory, mut burst) = (near.sender("burst").unwrap(), near.burst(frames.len()));
        for bytes in frames.iter().map(Frame::bytes) {
            let mut packet = memory.packet(bytes.len() as u32, Wait::Never).unwrap();
            packet.bytes_mut().copy_from_slice(&bytes);
            assert!(burst.push(packet).is_ok());
        }
        handler(&mut burst);
        self.counts.push(counts);
        self.sent += frames.len() as u64;
    }

    /// All that has arrived, by port.
    fn arrived(&mut self) -> Vec<Vec<Frame>> {
        self.time.run(MS);
        let all = self.receivers.iter_mut().zip(&self.far).map(|(receiver, port)| {
            let (mut burst, mut all) = (port.burst(64), Vec::new());
            while receiver.recv(&mut burst, Wait::Never).unwrap() > 0 {
                all.extend(std::iter::from_fn(|| burst.pop()).map(|packet| Frame::read(packet.head())));
            }
            all
        });
        all.collect()
    }

    fn freed(&self, reason: Unsent) -> u64 {
        let word = Unsent::ALL[reason as usize].1;
        let all = self.counts.iter().flat_map(|counts| counts.unsent());
        all.filter(|(freed, _)| *freed == word).map(|(_, packets)| packets).sum()
    }

    /// Closes it, and checks that each frame is accounted for, and that all memory is back.
    fn end(self) {
        let queues = self.near.iter().map(|port| port.queue().unwrap().counters().sent.get()).sum::<u64>();
        let copies: u64 = self.counts.iter().map(|counts| counts.copies.load(Relaxed)).sum();
        let freed: u64 = self.counts.iter().flat_map(|counts| counts.unsent()).map(|(_, freed)| freed).sum();
        drop((self.senders, self.receivers));
        self.near.iter().chain(&self.far).for_each(|port| _ = port.close(MS));
        assert_eq!(self.sent + copies, queues + freed);
        assert_eq!(self.pool.audit().out(), 0, "{}", self.pool.audit());
    }
}

fn settings() -> ForwardSettings {
    ForwardSettings { flood_pps: u32::MAX, ..ForwardSettings::default() }
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Where a frame should arrive, by a table that grows without end.
fn model(
    known: &mut HashMap<(u16, [u8; 6]), usize>, vlans: &[Vlans], at: usize, frame: Frame,
) -> Vec<(usize, Frame)> {
    let vlan = match (&vlans[at], frame.tag) {
        (_, Some(4095)) => return Vec::new(),
        (Vlans::Any, tag) => tag.unwrap_or(0),
        // A tag of VLAN 0 has a priority alone.
        (Vlans::One(vlan), None | Some(0)) => *vlan,
        (Vlans::These(vlans), Some(tag)) if vlans.contains(&tag) => tag,
        _ => return Vec::new(),
    };
    known.insert((vlan, frame.from), at);
    let is_in = |port: &usize| match &vlans[*port] {
        Vlans::Any => true,
        Vlans::One(own) => *own == vlan,
        Vlans::These(all) => all.contains(&vlan),
    };
    let others = (0..vlans.len()).filter(|port| *port != at).filter(is_in);
    let one = known.get(&(vlan, frame.to)).copied().filter(|port| *port == at || is_in(port));
    let leaves = |port: usize| {
        let tag = match vlans[port] {
            Vlans::One(_) => None,
            _ if vlan == 0 => frame.tag,
            _ => Some(vlan),
        };
        (port, Frame { tag, ..frame })
    };
    match one {
        Some(port) => Some(port).filter(|port| *port != at).into_iter().map(leaves).collect(),
        None => others.map(leaves).collect(),
    }
}

fn vlans() -> impl Strategy<Value = Vec<Vlans>> {
    let one = prop_oneof![
        3 => Just(Vlans::Any),
        2 => prop::sample::select(vec![10, 20]).prop_map(Vlans::One),
        1 => Just(Vlans::These(vec![10, 20])),
        1 => Just(Vlans::These(vec![20])),
    ];
    prop::collection::vec(one, 3..6)
}

fn frame() -> impl Strategy<Value = (prop::sample::Index, u8, Option<u8>, Option<u16>)> {
    // Few stations: many frames are between the two of an earlier one.
    let (from, to) = (0..3u8, prop_oneof![5 => (0..3u8).prop_map(Some), 1 => Just(None)]);
    (
        any::<prop::sample::Index>(),
        from,
        to,
        prop::sample::select(vec![None, Some(0), Some(10), Some(20), Some(4095)]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn each_frame_arrives_where_it_should_and_nowhere_else(
        vlans in vlans(), bursts in prop::collection::vec(prop::collection::vec(frame(), 1..20), 1..8),
    ) {
        let mut rig = Rig::new(&vlans, &settings());
        let (mut known, mut number) = (HashMap::new(), 0);
        for burst in bursts {
            // Frames of one burst come in by one port, together.
            let at = burst[0].0.index(vlans.len());
            let (mut wanted, mut frames) = (vec![Vec::new(); vlans.len()], Vec::new());
            for (_, from, to, tag) in burst {
                let to = to.map_or(ALL, mac);
                let frame = Frame { to, from: mac(from), tag, number };
                number += 1;
                for (port, frame) in model(&mut known, &vlans, at, frame) {
                    wanted[port].push(frame);
                }
                frames.push(frame);
            }
            rig.pass(at, &frames);
            prop_assert_eq!(rig.arrived(), wanted);
        }
        rig.end();
    }
}

#[test]
fn a_flood_ends_at_its_limit_and_other_frames_go_on() {
    let mut rig =
        Rig::new(&[Vlans::Any, Vlans::Any, Vlans::Any], &ForwardSettings { flood_pps: 100, ..settings() });
    let frame = |to, from, number| Frame { to, from: mac(from), tag: None, number };
    rig.send(1, frame(ALL, 1, 0));
    rig.arrived();
    // As many copies at once as a frame may have, and 100 a second: each frame has two.
    let (mut to_1, mut to_2) = (Vec::new(), Vec::new());
    for number in 0..300 {
        rig.send(0, frame(ALL, 0, number));
        rig.send(0, frame(mac(1), 0, 1000 + number));
        let [_, one, two]: [Vec<Frame>; 3] = rig.arrived().try_into().unwrap();
        to_1.extend(one);
        to_2.extend(two);
    }
    let floods = to_1.iter().filter(|frame| frame.to == ALL).count();
    assert!((PORTS_MAX / 2..PORTS_MAX / 2 + 20).contains(&floods), "{floods}");
    assert_eq!((to_1.len() - floods, to_2.len()), (300, floods));
    assert_eq!(rig.freed(Unsent::FloodLimit), 300 - floods as u64);
    rig.end();
}

#[test]
fn a_station_that_is_silent_is_forgotten_and_one_that_is_pinned_is_not_taken() {
    let mut rig = Rig::new(&[Vlans::Any, Vlans::Any, Vlans::Any], &settings());
    let frame = |to: u8, from: u8| Frame { to: mac(to), from: mac(from), tag: None, number: 0 };
    let counts = |all: Vec<Vec<Frame>>| all.iter().map(Vec::len).collect::<Vec<_>>();
    rig.send(0, frame(9, 0));
    assert_eq!(counts(rig.arrived()), [0, 1, 1], "an unknown one to all");
    rig.send(1, frame(0, 1));
    assert_eq!(counts(rig.arrived()), [1, 0, 0], "a known one to its port");
    (0..=AGE_TICKS).for_each(|_| rig.switch.grow_older());
    rig.send(1, frame(0, 1));
    assert_eq!(counts(rig.arrived()), [1, 0, 1], "it is not known any more");
    rig.send(0, frame(1, 0));
    assert_eq!(counts(rig.arrived()), [0, 1, 0]);
    rig.switch.has_own.store(true, Relaxed);
    rig.switch.members.write().unwrap()[0].as_mut().unwrap().own.push(mac(0));
    rig.send(2, frame(1, 0));
    assert_eq!(counts(rig.arrived()), [0, 0, 0]);
    rig.send(1, frame(0, 1));
    assert_eq!(counts(rig.arrived()), [1, 0, 0], "another port has its address, and gets nothing for it");
    assert_eq!(rig.freed(Unsent::Spoofed), 1);
    rig.end();
}

#[test]
fn a_station_that_moves_within_a_burst_is_at_its_new_port_for_the_frames_behind() {
    let mut rig = Rig::new(&[Vlans::Any, Vlans::Any, Vlans::Any], &settings());
    let frame = |to: u8, from: u8, number| Frame { to: mac(to), from: mac(from), tag: None, number };
    rig.send(1, frame(9, 1, 0));
    rig.arrived();
    // The second frame has moved the destination of the first to port 0.
    let frames = [frame(1, 0, 1), frame(0, 1, 2), frame(1, 0, 3)];
    rig.pass(0, &frames);
    assert_eq!(rig.arrived(), [vec![], vec![frames[0]], vec![]]);
    assert_eq!(rig.freed(Unsent::SamePort), 2);
    rig.end();
}

#[test]
fn a_port_that_is_unplugged_is_none_until_it_is_plugged_again() {
    let mut rig = Rig::new(&[Vlans::Any, Vlans::Any, Vlans::Any], &settings());
    let frame = |to: u8, from: u8| Frame { to: mac(to), from: mac(from), tag: None, number: 0 };
    let counts = |all: Vec<Vec<Frame>>| all.iter().map(Vec::len).collect::<Vec<_>>();
    rig.send(2, frame(9, 2));
    assert_eq!(counts(rig.arrived()), [1, 1, 0]);
    rig.send(0, frame(2, 0));
    assert_eq!(counts(rig.arrived()), [0, 0, 1]);
    rig.switch.leave(2);
    rig.send(0, frame(2, 0));
    assert_eq!(counts(rig.arrived()), [0, 1, 0], "its station is not known any more");
    let queues = vec![rig.near[2].queue().unwrap().clone()];
    let member = Member { name: "again".into(), vlans: Vlans::Any, queues, own: Vec::new() };
    rig.switch.join(2, member, &settings()).unwrap();
    rig.send(0, frame(2, 0));
    assert_eq!(counts(rig.arrived()), [0, 1, 1]);
    rig.end();
}

#[test]
fn frames_that_no_switch_sends_on_are_counted() {
    let mut rig = Rig::new(&[Vlans::Any, Vlans::One(10), Vlans::One(20)], &settings());
    let frame = |to, from, tag| Frame { to, from, tag, number: 0 };
    rig.send(0, frame(mac(1), ALL, None));
    rig.send(0, frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], mac(0), None));
    rig.send(1, frame(mac(1), mac(2), Some(10)));
    rig.send(0, frame(mac(1), mac(0), None));
    rig.send(2, frame(mac(5), mac(5), None));
    assert!(rig.arrived().iter().all(Vec::is_empty));
    let reasons =
        [Unsent::BadAddress, Unsent::LinkLocal, Unsent::OtherVlan, Unsent::NoPort, Unsent::SamePort];
    assert_eq!(reasons.map(|reason| rig.freed(reason)), [1; 5]);
    rig.end();
}

#[test]
fn a_priority_stays_in_the_tag_of_another_vlan() {
    let mut rig =
        Rig::new(&[Vlans::One(10), Vlans::These(vec![10]), Vlans::Any, Vlans::One(10)], &settings());
    let priority = 5 << 13;
    let frame = Frame { to: ALL, from: mac(0), tag: Some(priority), number: 0 };
    rig.send(0, frame);
    let tagged = Frame { tag: Some(priority | 10), ..frame };
    let plain = Frame { tag: None, ..frame };
    assert_eq!(rig.arrived(), [vec![], vec![tagged], vec![tagged], vec![plain]]);
    rig.end();
}

#[test]
fn a_priority_stays_in_a_frame_of_several_buffers() {
    let mut rig = Rig::new(&[Vlans::One(10), Vlans::These(vec![10]), Vlans::One(10)], &settings());
    let frame = Frame { to: ALL, from: mac(0), tag: Some(5 << 13), number: 0 };
    let [mut packet, behind] = [64, 1500].map(|bytes| rig.senders[0].packet(bytes, Wait::Never).unwrap());
    packet.bytes_mut().copy_from_slice(&frame.bytes());
    assert!(packet.append(behind).is_ok() && packet.is_chain());
    assert_eq!(rig.senders[0].send_packet(packet, MS).unwrap().dropped, 0);
    rig.sent += 1;
    let ways = [vec![], vec![Frame { tag: Some(5 << 13 | 10), ..frame }], vec![Frame { tag: None, ..frame }]];
    assert_eq!(rig.arrived(), ways);
    rig.end();
}

#[test]
fn a_station_that_is_pinned_is_at_its_port_before_it_was_seen_there() {
    let mut rig = Rig::new(&[Vlans::Any, Vlans::Any, Vlans::Any], &settings());
    let frame = |to: u8, from: u8| Frame { to: mac(to), from: mac(from), tag: None, number: 0 };
    let counts = |all: Vec<Vec<Frame>>| all.iter().map(Vec::len).collect::<Vec<_>>();
    rig.send(1, frame(9, 2));
    assert_eq!(counts(rig.arrived()), [1, 0, 1]);
    rig.switch.leave(2);
    let queues = vec![rig.near[2].queue().unwrap().clone()];
    let member = Member { name: "again".into(), vlans: Vlans::Any, queues, own: vec![mac(2)] };
    rig.switch.join(2, member, &settings()).unwrap();
    rig.send(0, frame(2, 0));
    assert_eq!(counts(rig.arrived()), [0, 0, 1], "neither where it was before, nor to all");
    rig.send(1, frame(0, 2));
    assert_eq!(counts(rig.arrived()), [0, 0, 0]);
    assert_eq!(rig.freed(Unsent::Spoofed), 1);
    rig.end();
}
