//! `Thinning`: a program of the kernel that drops, before they are received, all but a part of the packets of
//! some flows ([`RxDevice::thin`](wharf_core::device::RxDevice::thin)).
//!
//! It runs in the time of whoever sends, or of the interrupt: the receiver does not pay for what its
//! discipline would drop. It hashes IP packets as [`thin_buckets`](wharf_core::device::thin_buckets) does.
//! Those with IPv4 options, IPv6 extension headers or an authentication header pass, as all others do. A
//! map has the part of each bucket that passes, and counts what is dropped. Its first entry says whether a
//! setting is new, and since when the program has it: it holds for a second, so that everything passes
//! after a kill, or while nobody receives. (The program takes the time: this process may be in another time
//! namespace.) Where the kernel refuses the program, nothing is thinned.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wharf_core::device::{Passes, THIN_BUCKETS, THIN_FLOWS, THIN_ROWS, thin_seed};
use wharf_packet::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, SCTP, TCP, UDP,
    VLAN_BYTES, VLAN_TAGS_MAX,
};
use wharf_sys::xdp::assembler::Condition::{Equal, NotEqual};
use wharf_sys::xdp::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use wharf_sys::xdp::assembler::Width::{Byte, Double, Half, Word};
use wharf_sys::xdp::assembler::{
    Assembler, GET_PRANDOM_U32, KTIME_GET_NS, Label, MAP_LOOKUP, Register, SKB_LOAD_BYTES_RELATIVE,
};
use wharf_sys::xdp::{ShareMap, load_filter};

/// The protocol number of the authentication header, behind which the transport lies.
const AUTHENTICATION: u8 = 51;
/// The reason of packets that it drops.
pub(crate) const THINNED: &str = "thinned";
/// Time for which a setting holds.
const HOLDS_NS: i32 = 1_000_000_000;
/// First word of the first entry: there is no setting, a new one, one that the program has the time of. Above
/// these bits lies the seed of the hash: processes that share a program have one each.
const NONE: u64 = 0;
const NEW: u64 = 1;
const KNOWN: u64 = 2;
const STATE_BITS: i32 = 8;
/// Entries of the map for each queue.
pub(crate) const ENTRIES: u32 = THIN_BUCKETS as u32 + 1;

/// Offsets on the program's stack, from its end: the key of a lookup in the map, and the packet's bytes.
const KEY_AT: i16 = -8;
const BYTES_AT: i16 = -56;
/// Place of the IP header: the addresses of an IPv4 header then lie at a multiple of eight.
const IP_AT: i16 = BYTES_AT + 4;
/// The number of the queue's first entry, and once the packet's class is known that of the class.
const KEPT_AT: i16 = KEY_AT + 4;
/// The context, the protocol and later the entry, the bytes of tags and later the ports and the part that
/// passes, the hash.
const CONTEXT: Register = R6;
const PROTOCOL: Register = R7;
const PORTS: Register = R8;
const HASH: Register = R9;

/// The offset from which on a filter sees a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketBegin {
    /// All from the Ethernet header on, by a function that copies bytes.
    Ethernet(i32),
    /// The IP header, which the kernel knows.
    Ip,
}

/// A map, and a filter with the program.
#[derive(Debug)]
struct Made {
    map: ShareMap,
    filter: OwnedFd,
    is_attached: bool,
}

/// The thinning of a socket or a TAP interface: `None` where the kernel refuses it.
#[derive(Debug)]
pub(crate) struct Thinning(Option<Made>);

impl Thinning {
    /// Loads the program, while the process may: it is to lose privileges, perhaps.
    pub(crate) fn new(begin: PacketBegin) -> Self {
        Self(make(begin).ok())
    }

    /// See [`RxDevice::thin`](wharf_core::device::RxDevice::thin). `attach` puts the filter to work, or takes
    /// it away.
    #[cold]
    pub(crate) fn thin(
        &mut self, passes: Option<&Passes>, attach: impl FnOnce(Option<BorrowedFd<'_>>) -> io::Result<()>,
    ) -> bool {
        let Some(made) = &mut self.0 else { return false };
        set(&made.map, 0, passes);
        if made.is_attached != passes.is_some() {
            made.is_attached = attach(passes.map(|_| made.filter.as_fd())).is_ok() && passes.is_some();
        }
        made.is_attached
    }

    /// Returns the packets dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |made| dropped(&made.map, 0))
    }

    /// Shows their number, if there are any.
    pub(crate) fn show(&self, see: &mut dyn FnMut(&'static str, u64)) {
        if self.dropped() > 0 {
            see(THINNED, self.dropped());
        }
    }
}

fn make(begin: PacketBegin) -> io::Result<Made> {
    let map = ShareMap::new(ENTRIES)?;
    let mut code = Assembler::new();
    let ends = Ends { passed: code.label(), thinned: code.label() };
    code.copy(CONTEXT, R1);
    code.set(R0, 0);
    thin(&mut code, &map, begin, ends);
    for (label, bytes) in [(ends.passed, i32::MAX), (ends.thinned, 0)] {
        code.place(label);
        code.set(R0, bytes);
        code.exit();
    }
    let filter = load_filter(&code.finish())?;
    Ok(Made { map, filter, is_attached: false })
}

/// Sets what passes of the packets of queue `queue`.
pub(crate) fn set(map: &ShareMap, queue: u32, passes: Option<&Passes>) {
    let first = (queue * ENTRIES) as usize;
    for (at, part) in (first + 1..).zip(passes.into_iter().flatten()) {
        map.set(at, u64::from(*part));
    }
    map.set(first, passes.map_or(NONE, |_| NEW | thin_seed() << STATE_BITS));
}

/// Returns the packets of queue `queue` that have been dropped.
pub(crate) fn dropped(map: &ShareMap, queue: u32) -> u64 {
    let first = (queue * ENTRIES) as usize;
    (first + 1..first + ENTRIES as usize).map(|at| map.counted(at)).sum()
}

/// The labels at which the part that thins ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// With a packet that passes.
    pub(crate) passed: Label,
    /// With one that does not.
    pub(crate) thinned: Label,
}

/// Writes the part that thins. R0 has the number of the queue's first entry.
pub(crate) fn thin(code: &mut Assembler, map: &ShareMap, begin: PacketBegin, ends: Ends) {
    Thinner { code, map, begin, ends }.thin();
}

struct Thinner<'a> {
    code: &'a mut Assembler,
    map: &'a ShareMap,
    begin: PacketBegin,
    ends: Ends,
}

impl Thinner<'_> {
    fn thin(&mut self) {
        self.code.store(Word, R10, KEPT_AT, R0);
        self.look_up();
        self.code.copy(R7, R0);
        self.code.load(Double, R8, R7, 0);
        self.code.jump_if_null(R8, self.ends.passed);
        self.code.copy(HASH, R8);
        self.code.call(KTIME_GET_NS);
        let known = self.code.label();
        self.code.and(R8, (NEW | KNOWN) as u32);
        self.code.jump_if(R8, NotEqual, NEW as u32, known);
        self.code.store(Double, R7, 8, R0);
        self.code.set(R8, (NEW ^ KNOWN) as i32);
        self.code.xor_register(R8, HASH);
        self.code.store(Double, R7, 0, R8);
        self.code.place(known);
        self.code.load(Double, R8, R7, 8);
        self.code.add(R8, HOLDS_NS);
        self.code.jump_if_beyond(R0, R8, self.ends.passed);
        self.hash();
        self.code.set(R8, 0);
        (0..THIN_ROWS).for_each(|row| self.look_at(row));
        self.code.call(GET_PRANDOM_U32);
        let drops = self.code.label();
        self.code.jump_if_beyond(R0, R8, drops);
        self.code.jump(self.ends.passed);
        self.code.place(drops);
        self.code.set(R1, 1);
        self.code.add_atomically(R7, 8, R1);
        self.code.jump(self.ends.thinned);
    }

    /// Sets R7 to the entry of the packet's bucket in row `row`, and R8 to its part if that is larger.
    fn look_at(&mut self, row: usize) {
        let (bits, larger) = (THIN_FLOWS.ilog2() as i32, self.code.label());
        self.code.copy(R0, HASH);
        self.code.shift_right(R0, u64::BITS as i32 - (row as i32 + 1) * bits);
        self.code.and(R0, THIN_FLOWS as u32 - 1);
        self.code.load(Word, R1, R10, KEPT_AT);
        self.code.add_register(R0, R1);
        self.code.add(R0, (1 + row * THIN_FLOWS) as i32);
        self.look_up();
        self.code.copy(R7, R0);
        self.code.load(Word, R0, R7, 0);
        self.code.jump_if_beyond(R8, R0, larger);
        self.code.copy(R8, R0);
        self.code.place(larger);
    }

    /// Sets R0 to the entry of number R0.
    fn look_up(&mut self) {
        self.code.store(Word, R10, KEY_AT, R0);
        self.code.load_map(R1, self.map.fd());
        self.code.copy(R2, R10);
        self.code.add(R2, KEY_AT.into());
        self.code.call(MAP_LOOKUP);
        self.code.jump_if_null(R0, self.ends.passed);
    }

    /// Copies `bytes` of the packet, from byte `at` of the IP header on, to `to` of the stack. In a frame
    /// tags of `PORTS` bytes lie before it.
    fn load_bytes(&mut self, at: i32, bytes: i32, to: i16) {
        self.code.copy(R1, CONTEXT);
        let load = match self.begin {
            PacketBegin::Ethernet(load) => {
                self.code.copy(R2, PORTS);
                self.code.add(R2, at + ETHERNET_BYTES as i32);
                load
            }
            PacketBegin::Ip => {
                self.code.set(R2, at);
                SKB_LOAD_BYTES_RELATIVE
            }
        };
        self.code.copy(R3, R10);
        self.code.add(R3, to.into());
        self.code.set(R4, bytes);
        self.code.set(R5, 1);
        self.code.call(load);
        self.code.jump_if(R0, NotEqual, 0, self.ends.passed);
    }

    /// Loads the IP header behind the tags of a frame, and goes on to `ipv6` for one of IPv6.
    fn find_ip(&mut self, ipv6: Label) {
        if self.begin == PacketBegin::Ip {
            self.load_bytes(0, 24, IP_AT);
            self.code.load(Byte, R0, R10, IP_AT);
            self.code.shift_right(R0, 4);
            self.code.jump_if(R0, Equal, 6, ipv6);
            return;
        }
        self.code.set(PORTS, 0);
        let untagged = self.code.label();
        for tags in 0..=VLAN_TAGS_MAX {
            self.load_bytes(-4, 28, BYTES_AT);
            self.code.load(Half, R0, R10, BYTES_AT + 2);
            if tags < VLAN_TAGS_MAX {
                let tagged = self.code.label();
                self.code.jump_if(R0, Equal, network_half(ETHERTYPE_VLAN), tagged);
                self.code.jump_if(R0, NotEqual, network_half(ETHERTYPE_QINQ), untagged);
                self.code.place(tagged);
                self.code.add(PORTS, VLAN_BYTES as i32);
            }
        }
        self.code.place(untagged);
        self.code.jump_if(R0, Equal, network_half(ETHERTYPE_IPV6), ipv6);
        self.code.jump_if(R0, NotEqual, network_half(ETHERTYPE_IPV4), self.ends.passed);
    }

    /// Sets `HASH` to the packet's flow hash.
    fn hash(&mut self) {
        let [ipv6, whole, with_ports, done] = std::array::from_fn(|_| self.code.label());
        self.code.shift_right(HASH, STATE_BITS);
        self.find_ip(ipv6);
        self.hash_ipv4(whole);
        // All fragments of a packet are hashed without ports.
        self.add_word(PROTOCOL);
        self.code.jump(done);
        self.code.place(ipv6);
        self.hash_ipv6();
        self.code.place(whole);
        self.code.jump_if(PROTOCOL, Equal, AUTHENTICATION.into(), self.ends.passed);
        self.add_word(PROTOCOL);
        for protocol in [TCP, UDP, SCTP] {
            self.code.jump_if(PROTOCOL, Equal, protocol.into(), with_ports);
        }
        self.code.jump(done);
        self.code.place(with_ports);
        self.add_word(PORTS);
        self.code.place(done);
        self.mix();
        self.code.set_wide(R5, 0xff51_afd7_ed55_8ccd);
        self.code.multiply_register(HASH, R5);
        self.mix();
    }

    /// Adds the addresses of an IPv4 header, sets `PROTOCOL` and `PORTS`, and goes on to `whole` unless the
    /// packet is a fragment.
    fn hash_ipv4(&mut self, whole: Label) {
        const IPV4_FRAGMENT_MASK: u16 = 0x3fff;
        self.code.load(Byte, R0, R10, IP_AT);
        self.code.jump_if(R0, NotEqual, 0x45, self.ends.passed);
        self.code.load(Byte, R0, R10, IP_AT + 1);
        self.code.shift_right(R0, 5);
        self.add_class();
        self.code.load(Byte, PROTOCOL, R10, IP_AT + 9);
        self.code.load(Word, PORTS, R10, IP_AT + 20);
        self.add_stack(IP_AT + 12);
        self.code.load(Half, R0, R10, IP_AT + 6);
        self.code.and(R0, network_half(IPV4_FRAGMENT_MASK));
        self.code.jump_if(R0, Equal, 0, whole);
    }

    /// Adds the addresses of an IPv6 header without extension headers, and sets `PROTOCOL` and `PORTS`.
    fn hash_ipv6(&mut self) {
        /// Hop by hop, routing, fragment and destination options; authentication is left to the caller.
        const EXTENSIONS: [u32; 4] = [0, 43, 44, 60];
        self.code.load(Byte, R0, R10, IP_AT);
        self.code.copy(R1, R0);
        self.code.shift_right(R1, 4);
        self.code.jump_if(R1, NotEqual, 6, self.ends.passed);
        self.code.shift_right(R0, 1);
        self.add_class();
        self.code.load(Byte, PROTOCOL, R10, IP_AT + 6);
        for extension in EXTENSIONS {
            self.code.jump_if(PROTOCOL, Equal, extension, self.ends.passed);
        }
        self.load_bytes(8, 36, BYTES_AT);
        self.code.load(Word, PORTS, R10, BYTES_AT + 32);
        (0..4).for_each(|word| self.add_stack(BYTES_AT + 8 * word));
    }

    /// Goes on to the entries of the packet's class, the lower bits of R0. A device that makes headers of its
    /// own makes all of class 0.
    fn add_class(&mut self) {
        if self.begin != PacketBegin::Ip {
            self.code.and(R0, 7);
            self.code.shift_left(R0, (THIN_ROWS * THIN_FLOWS).ilog2() as i32);
            self.code.load(Word, R1, R10, KEPT_AT);
            self.code.add_register(R0, R1);
            self.code.store(Word, R10, KEPT_AT, R0);
        }
    }

    fn add_stack(&mut self, at: i16) {
        self.code.load(Double, R1, R10, at);
        self.add_word(R1);
    }

    /// Rotates by five bits, adds a word, and multiplies.
    fn add_word(&mut self, word: Register) {
        self.code.copy(R0, HASH);
        self.code.shift_right(R0, 59);
        self.code.shift_left(HASH, 5);
        self.code.or_register(HASH, R0);
        self.code.xor_register(HASH, word);
        self.code.set_wide(R5, 0x517c_c1b7_2722_0a95);
        self.code.multiply_register(HASH, R5);
    }

    fn mix(&mut self) {
        self.code.copy(R0, HASH);
        self.code.shift_right(R0, 33);
        self.code.xor_register(HASH, R0);
    }
}

/// Returns a number as a load of it finds it in the packet, where it is in the network's order.
pub(crate) fn network_half(number: u16) -> u32 {
    u16::from_ne_bytes(number.to_be_bytes()).into()
}
