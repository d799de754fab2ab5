//! The program that chooses frames, run by an interpreter of its instructions, beside the parser of `wharf-packet`.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::net::IpAddr;
use wharf_devices::xdp::steering::program::program;
use wharf_devices::xdp::steering::{Flow, Steering};
use wharf_packet::{Headers, IpPacket, TCP, UDP, ip_packet};
use wharf_sys::xdp::assembler::Instruction;
use wharf_sys::xdp::{Program, ShareMap, SocketMap};

/// Addresses of the machine: the context, and the packet's first byte.
const CONTEXT: u64 = 0x1000;
const PACKET: u64 = 0x10_0000;
const QUEUE: u32 = 3;
const PASS: u64 = 2;
/// The verdict of the function that hands a frame over.
const REDIRECT: u64 = 4;

/// Runs a program over a frame. Panics where the kernel would refuse it: a load beyond the frame, an unknown instruction.
fn run(program: &[Instruction], frame: &[u8]) -> u64 {
    let mut registers = [0xdead_0000_0000_0000u64; 11];
    registers[1] = CONTEXT;
    let mut at = 0;
    for _ in 0..4096 {
        let (code, to, from, offset, immediate) = program[at].parts();
        let (to, from) = (usize::from(to), usize::from(from));
        let wide = i64::from(immediate) as u64;
        at += 1;
        match code {
            0x61 | 0x69 | 0x71 => {
                let width = match code {
                    0x61 => 4,
                    0x69 => 2,
                    _ => 1,
                };
                registers[to] = load(frame, registers[from].wrapping_add_signed(offset.into()), width);
            }
            0xb7 => registers[to] = wide,
            0xbf => registers[to] = registers[from],
            0x07 => registers[to] = registers[to].wrapping_add(wide),
            0x0f => registers[to] = registers[to].wrapping_add(registers[from]),
            0x54 => registers[to] = u64::from(registers[to] as u32 & immediate as u32),
            0x67 => registers[to] <<= immediate,
            0x77 => registers[to] >>= immediate,
            0xdc => registers[to] = u16::from_be(registers[to] as u16).into(),
            0x05 | 0x2d | 0x16 | 0x26 | 0x56 | 0xa6 => {
                let (low, number) = (registers[to] as u32, immediate as u32);
                let jumps = match code {
                    0x05 => true,
                    0x2d => registers[to] > registers[from],
                    0x16 => low == number,
                    0x26 => low > number,
                    0x56 => low != number,
                    _ => low < number,
                };
                if jumps {
                    at = at.checked_add_signed(offset.into()).unwrap();
                }
            }
            0x18 => {
                registers[to] = 0xa11;
                at += 1;
            }
            0x85 => {
                assert_eq!(
                    (immediate, registers[1], registers[2], registers[3]),
                    (51, 0xa11, QUEUE.into(), PASS)
                );
                registers[0] = REDIRECT;
            }
            0x95 => return registers[0],
            code => panic!("unknown instruction {code:#x}"),
        }
    }
    panic!("it does not end");
}

fn load(frame: &[u8], address: u64, width: usize) -> u64 {
    if (CONTEXT..CONTEXT + 24).contains(&address) {
        return match address - CONTEXT {
            0 => PACKET,
            4 => PACKET + frame.len() as u64,
            16 => QUEUE.into(),
            at => panic!("the context has nothing at {at}"),
        };
    }
    let at = usize::try_from(address.checked_sub(PACKET).expect("an address")).unwrap();
    let bytes =
        frame.get(at..at + width).unwrap_or_else(|| panic!("{width} bytes at {at} of {}", frame.len()));
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns true if `steering` takes `frame`, by the parser.
fn is_taken(steering: &Steering, frame: &[u8]) -> bool {
    let Steering::Flows(flows) = steering else { return true };
    let Some(packet) = ip_packet(frame) else { return false };
    let (protocol, destination, port): (u8, IpAddr, _) = match packet {
        IpPacket::V4(ip) => {
            let bytes = ip[0] as usize % 16 * 4;
            let Some(header) = ip.get(..bytes).filter(|header| header.len() >= 20) else { return false };
            // An authentication header is walked by the parser, not by the program.
            let headers = Headers::parse(frame).ok().filter(|headers| !headers.is_authenticated);
            let destination = *header[16..].first_chunk::<4>().unwrap();
            (header[9], destination.into(), headers.and_then(|headers| headers.ports(frame)))
        }
        IpPacket::V6(ip) => {
            let Some(header) = ip.first_chunk::<40>() else { return false };
            let headers = Headers::parse(frame).ok();
            let plain = headers.filter(|headers| headers.transport_at == frame.len() - ip.len() + 40);
            let destination = *header[24..].first_chunk::<16>().unwrap();
            (header[6], destination.into(), plain.and_then(|headers| headers.ports(frame)))
        }
    };
    flows.iter().any(|flow| match flow {
        Flow::Port(wanted, ports) => *wanted == protocol && port.is_some_and(|(_, to)| ports.contains(&to)),
        Flow::Address(address, prefix) => match (address, destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(*prefix)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(*prefix)
            }
            _ => false,
        },
    })
}

/// Keys, most of which have something for the frames below.
const KEYS: [&str; 9] = [
    "udp:4433",
    "tcp:80-4433",
    "udp:0-65535",
    "udp:53+udp:4433+tcp:443+tcp:65535",
    "ip:10.9.0.2",
    "ip:10.8.0.0/15+udp:9",
    "ip:2001:db8::2+tcp:4433",
    "ip:2001:db8:ffff::/37",
    "ip:0.0.0.0/0+ip:::/0",
];
const PORTS: [u16; 7] = [0, 9, 53, 80, 443, 4433, 65535];

/// Ethernet with some tags, IP of either version with options or another next header, ports: cut short, or with one byte changed.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let ethernet = (
        prop::collection::vec(prop::sample::select(vec![0x8100u16, 0x8100, 0x88a8, 0x88a8, 0x9100]), 0..4),
        any::<u8>(),
    );
    let transport = (
        prop::sample::select(vec![TCP, TCP, UDP, UDP, UDP, 0, 44, 51, 60, 132]),
        prop::sample::select(PORTS.to_vec()),
        prop::collection::vec(any::<u8>(), 0..24),
    );
    let address = (prop::sample::select(vec![2u8, 3]), prop::sample::select(vec![0u8, 9, 0xff]));
    let ipv4 = (
        prop::sample::select(vec![5u8, 5, 5, 6, 15, 4, 0]),
        prop::sample::select(vec![0u16, 0, 0x4000, 0x2000, 1, 0x8000]),
    );
    let change = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (ethernet, any::<bool>(), ipv4, address, transport, change, cut).prop_map(
        |((tags, ethertype), is_ipv6, (words, fragment), address, transport, change, cut)| {
            let mut bytes = vec![2; 12];
            for tag in tags {
                bytes.extend([tag.to_be_bytes(), [0, 5]].concat());
            }
            let known = if is_ipv6 { 0x86ddu16 } else { 0x0800 };
            bytes.extend(if ethertype < 240 { known } else { u16::from(ethertype) }.to_be_bytes());
            let (protocol, port, rest) = transport;
            if is_ipv6 {
                bytes.extend([0x60, 0, 0, 0, 0, 30, protocol, 64]);
                bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
                bytes
                    .extend([0x20, 1, 0xd, 0xb8, address.1, address.1, 0, 0, 0, 0, 0, 0, 0, 0, 0, address.0]);
            } else {
                let [high, low] = fragment.to_be_bytes();
                bytes.extend([0x40 | words, 0, 0, 40, 0, 0, high, low, 64, protocol, 0, 0, 10, 9, 0, 1]);
                bytes.extend([10, address.1, 0, address.0]);
                bytes.extend(vec![1; usize::from(words).saturating_sub(5) * 4]);
            }
            bytes.extend([0x30, 0x39]);
            bytes.extend(port.to_be_bytes());
            bytes.extend(rest);
            if let Some((at, byte)) = change {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len() + 1)));
            bytes
        },
    )
}

/// The kernel's map, which a program is loaded with; no frame gets there.
fn programs() -> Vec<(Steering, Vec<Instruction>)> {
    let sockets = SocketMap::new(0).expect("wants root");
    let keys = KEYS.iter().map(|key| Steering::parse(key).unwrap()).chain([Steering::All]);
    keys.map(|steering| (steering.clone(), program(&steering, &sockets, None))).collect()
}

#[test]
#[ignore = "wants root"]
fn the_program_takes_what_the_parser_would_and_loads_no_byte_beyond_the_frame() {
    let programs = programs();
    let taken: Vec<Cell<u32>> = programs.iter().map(|_| Cell::new(0)).collect();
    let config = ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config).run(&any_frame(), |frame| {
        for ((steering, program), taken) in programs.iter().zip(&taken) {
            let is_taken = is_taken(steering, &frame);
            let want = if is_taken { REDIRECT } else { PASS };
            prop_assert_eq!(run(program, &frame), want, "{:?} {:x?}", steering, frame);
            taken.set(taken.get() + u32::from(is_taken));
        }
        Ok(())
    });
    ran.unwrap();
    assert!(taken.iter().all(|taken| taken.get() > 200), "some had nothing to take: {taken:?}");
}

#[test]
#[ignore = "wants root"]
fn the_kernel_verifies_every_program() {
    let many = |flow: fn(usize) -> String| (0..64).map(flow).collect::<Vec<_>>().join("+");
    let longest = [
        many(|at| format!("udp:{}-{}", 100 * at, 100 * at + 9)),
        many(|at| format!("ip:2001:db8:{at:x}::1")),
        many(|at| if at % 2 == 0 { format!("ip:10.0.{at}.0/24") } else { format!("tcp:{at}") }),
    ];
    let (sockets, thins) = (SocketMap::new(0).unwrap(), ShareMap::new(4096).unwrap());
    for key in KEYS.iter().copied().chain(longest.iter().map(String::as_str)).chain(["all"]) {
        for thins in [None, Some(&thins)] {
            let program = program(&Steering::parse(key).unwrap(), &sockets, thins);
            let loaded = Program::load(&program);
            assert!(loaded.is_ok(), "{key}: {} instructions: {loaded:?}", program.len());
        }
    }
}

#[test]
#[ignore = "wants root"]
#[cfg(target_endian = "little")]
fn the_program_for_all_frames_equals_the_one_by_the_kernels_macros() {
    let sockets = SocketMap::new(0).unwrap();
    let program = program(&Steering::All, &sockets, None);
    let map = program[2].parts().4;
    let want = [
        (0xbf, 6, 1, 0, 0),
        (0x61, 2, 6, 16, 0),
        (0x18, 1, 1, 0, map),
        (0, 0, 0, 0, 0),
        (0xb7, 3, 0, 0, 2),
        (0x85, 0, 0, 0, 51),
        (0x95, 0, 0, 0, 0),
    ];
    assert!(program.iter().map(Instruction::parts).eq(want));
}
