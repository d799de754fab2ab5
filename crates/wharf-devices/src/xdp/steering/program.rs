//! The program of a [`Steering`]: it hands frames of the flows to the socket of their queue, and passes the others to the host.
//!
//! The kernel verifies that each load lies within the packet: before it, the end of what is loaded is compared with the packet's end,
//! and a frame that is cut short goes to the host. It refuses instructions that cannot be reached, too.

use super::{Flow, Steering};
use crate::thinning::{self, PacketBegin, network_half};
use std::net::IpAddr;
use wharf_packet::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, IPV4_BYTES, IPV6_BYTES, VLAN_BYTES,
    VLAN_TAGS_MAX,
};
use wharf_sys::xdp::assembler::Condition::{self, Above, Below, Equal, NotEqual};
use wharf_sys::xdp::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7};
use wharf_sys::xdp::assembler::Width::{Byte, Half, Word};
use wharf_sys::xdp::assembler::{
    Assembler, DATA_AT, DATA_END_AT, Instruction, Label, REDIRECT_MAP, RX_QUEUE_INDEX_AT, Register, XDP_DROP,
    XDP_LOAD_BYTES, XDP_PASS,
};
use wharf_sys::xdp::{ShareMap, SocketMap};

/// Registers: the context, the packet (with ports, later the transport header), its end. R0, R4 and R5 are for the moment.
const CONTEXT: Register = R6;
const PACKET: Register = R2;
const END: Register = R3;
/// The protocol number of the transport header.
const PROTOCOL: Register = R7;

/// Offsets from `PACKET`: of the last EtherType, of the IP header, and of fields in that.
const ETHERTYPE_AT: i16 = crate::iface::ETHERTYPE_AT as i16;
const IP_AT: i16 = 14;
const IPV4_FRAGMENT_AT: i16 = IP_AT + 6;
const IPV4_PROTOCOL_AT: i16 = IP_AT + 9;
const IPV4_DESTINATION_AT: i16 = IP_AT + 16;
const IPV6_NEXT_HEADER_AT: i16 = IP_AT + 6;
const IPV6_DESTINATION_AT: i16 = IP_AT + 24;
/// Offset and end of the destination port in the headers of TCP and UDP.
const PORT_AT: i16 = 2;
const PORT_END: usize = 4;
/// More-fragments flag and offset of an IPv4 header.
const IPV4_FRAGMENT_MASK: u16 = 0x3fff;

/// Returns the program that hands the frames of `steering` to `sockets`, thinned as `thins` says.
pub fn program(steering: &Steering, sockets: &SocketMap, thins: Option<&ShareMap>) -> Vec<Instruction> {
    let mut code = Assembler::new();
    code.copy(CONTEXT, R1);
    if let Steering::Flows(flows) = steering {
        let mut chooser = Chooser { taken: code.label(), passed: code.label(), flows, code };
        chooser.choose();
        code = chooser.finish();
    }
    if let Some(map) = thins {
        let ends = thinning::Ends { passed: code.label(), thinned: code.label() };
        code.load(Word, R0, CONTEXT, RX_QUEUE_INDEX_AT);
        code.multiply(R0, thinning::ENTRIES as i32);
        thinning::thin(&mut code, map, PacketBegin::Ethernet(XDP_LOAD_BYTES), ends);
        code.place(ends.thinned);
        code.set(R0, XDP_DROP);
        code.exit();
        code.place(ends.passed);
    }
    // bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)
    code.load(Word, R2, CONTEXT, RX_QUEUE_INDEX_AT);
    code.load_map(R1, sockets.fd());
    code.set(R3, XDP_PASS);
    code.call(REDIRECT_MAP);
    code.exit();
    code.finish()
}

/// Writes the part that chooses frames.
struct Chooser<'a> {
    code: Assembler,
    flows: &'a [Flow],
    /// The frame is handed over.
    taken: Label,
    /// The frame is the host's.
    passed: Label,
}

impl Chooser<'_> {
    /// Ends with the verdict for frames that are not taken. What follows is for those that are.
    fn finish(mut self) -> Assembler {
        self.code.place(self.passed);
        self.code.set(R0, XDP_PASS);
        self.code.exit();
        self.code.place(self.taken);
        self.code
    }

    fn has_ports(&self) -> bool {
        self.flows.iter().any(|flow| matches!(flow, Flow::Port(..)))
    }

    fn choose(&mut self) {
        let (ipv6, ports) = (self.code.label(), self.code.label());
        self.code.load(Word, PACKET, CONTEXT, DATA_AT);
        self.code.load(Word, END, CONTEXT, DATA_END_AT);
        self.skip_tags();
        self.code.jump_if(R5, Equal, network_half(ETHERTYPE_IPV6), ipv6);
        self.code.jump_if(R5, NotEqual, network_half(ETHERTYPE_IPV4), self.passed);
        self.choose_ipv4();
        self.code.jump(if self.has_ports() { ports } else { self.passed });
        self.code.place(ipv6);
        self.choose_ipv6();
        if self.has_ports() {
            self.code.place(ports);
            self.choose_ports();
        }
    }

    /// Passes a frame of less than `bytes` from `PACKET` on.
    fn pass_shorter(&mut self, bytes: usize) {
        self.code.copy(R4, PACKET);
        self.code.add(R4, bytes as i32);
        self.code.jump_if_beyond(R4, END, self.passed);
    }

    /// Moves `PACKET` behind VLAN tags, so that the IP header is at `IP_AT`. Loads the EtherType into R5.
    fn skip_tags(&mut self) {
        self.pass_shorter(IP_AT as usize);
        self.code.load(Half, R5, PACKET, ETHERTYPE_AT);
        for _ in 0..VLAN_TAGS_MAX {
            let (tagged, untagged) = (self.code.label(), self.code.label());
            self.code.jump_if(R5, Equal, network_half(ETHERTYPE_VLAN), tagged);
            self.code.jump_if(R5, NotEqual, network_half(ETHERTYPE_QINQ), untagged);
            self.code.place(tagged);
            self.pass_shorter(IP_AT as usize + VLAN_BYTES);
            self.code.add(PACKET, VLAN_BYTES as i32);
            self.code.load(Half, R5, PACKET, ETHERTYPE_AT);
            self.code.place(untagged);
        }
    }

    /// Takes IPv4 packets by address. Leaves the transport header of the others in `PACKET`, if ports are wanted.
    fn choose_ipv4(&mut self) {
        self.pass_shorter(IP_AT as usize + IPV4_BYTES);
        self.code.load(Byte, R5, PACKET, IP_AT);
        self.pass_other_version(4);
        // Bytes of the header, with its options.
        self.code.and(R5, 0xf);
        self.code.shift_left(R5, 2);
        self.code.jump_if(R5, Below, IPV4_BYTES as u32, self.passed);
        self.code.copy(R4, PACKET);
        self.code.add(R4, IP_AT.into());
        self.code.add_register(R4, R5);
        self.code.jump_if_beyond(R4, END, self.passed);
        for flow in self.flows {
            if let Flow::Address(IpAddr::V4(address), prefix) = flow {
                self.take_word(IPV4_DESTINATION_AT, address.octets(), mask(*prefix), self.taken, Equal);
            }
        }
        if self.has_ports() {
            self.code.load(Half, R0, PACKET, IPV4_FRAGMENT_AT);
            self.code.and(R0, network_half(IPV4_FRAGMENT_MASK));
            self.code.jump_if(R0, NotEqual, 0, self.passed);
            self.code.load(Byte, PROTOCOL, PACKET, IPV4_PROTOCOL_AT);
            self.code.add(PACKET, IP_AT.into());
            self.code.add_register(PACKET, R5);
        }
    }

    /// Works like `choose_ipv4`.
    fn choose_ipv6(&mut self) {
        self.pass_shorter(IP_AT as usize + IPV6_BYTES);
        self.code.load(Byte, R5, PACKET, IP_AT);
        self.pass_other_version(6);
        for flow in self.flows {
            if let Flow::Address(IpAddr::V6(address), prefix) = flow {
                self.take_ipv6(address.octets(), *prefix);
            }
        }
        if self.has_ports() {
            self.code.load(Byte, PROTOCOL, PACKET, IPV6_NEXT_HEADER_AT);
            self.code.add(PACKET, i32::from(IP_AT) + IPV6_BYTES as i32);
        }
    }

    /// Passes a packet whose first byte, in R5, says another version.
    fn pass_other_version(&mut self, version: u32) {
        self.code.copy(R0, R5);
        self.code.shift_right(R0, 4);
        self.code.jump_if(R0, NotEqual, version, self.passed);
    }

    fn take_ipv6(&mut self, address: [u8; 16], prefix: u8) {
        let other = self.code.label();
        for (at, word) in (0u8..).zip(address.as_chunks::<4>().0) {
            let mask = mask(prefix.saturating_sub(32 * at).min(32));
            // The first word is looked at in any case: what follows must be reachable.
            if mask != 0 || at == 0 {
                self.take_word(IPV6_DESTINATION_AT + 4 * i16::from(at), *word, mask, other, NotEqual);
            }
        }
        self.code.jump(self.taken);
        self.code.place(other);
    }

    /// Jumps to `to` if the word at `at` meets `condition` with `word`, as far as `mask` goes.
    fn take_word(&mut self, at: i16, word: [u8; 4], mask: u32, to: Label, condition: Condition) {
        let (word, mask) = (u32::from_ne_bytes(word), u32::from_ne_bytes(mask.to_be_bytes()));
        self.code.load(Word, R0, PACKET, at);
        self.code.and(R0, mask);
        self.code.jump_if(R0, condition, word & mask, to);
    }

    /// Takes packets by the destination port of the transport header at `PACKET`.
    fn choose_ports(&mut self) {
        self.pass_shorter(PORT_END);
        self.code.load(Half, R0, PACKET, PORT_AT);
        self.code.from_network_half(R0);
        for flow in self.flows {
            if let Flow::Port(protocol, ports) = flow {
                let other = self.code.label();
                self.code.jump_if(PROTOCOL, NotEqual, (*protocol).into(), other);
                self.code.jump_if(R0, Below, (*ports.start()).into(), other);
                self.code.jump_if(R0, Above, (*ports.end()).into(), other);
                self.code.jump(self.taken);
                self.code.place(other);
            }
        }
    }
}

/// Returns a mask of the first `prefix` of 32 bits.
fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}
