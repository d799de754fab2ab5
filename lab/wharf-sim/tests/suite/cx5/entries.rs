use proptest::prelude::*;
use wharf_sim::nic::cx5::parse::{Content, Entry, EntryError};
use wharf_sim::nic::cx5::segment::{BLOCK_BYTES, BLOCKS_MAX, Ethernet, Kind, POINTERS_MAX, Pointer};
use wharf_sim::nic::cx5::send_half::{Outgoing, SendHalf, WriteError};
use wharf_sim::nic::cx5::write::{EntryWriter, Mode};
use wharf_sim::nic::host_memory::HostMemory;
use wharf_sim::nic::ring::Ring;

const SINGLE: Mode = Mode { multi: false, inline_from: None, completion_each: false };
const MULTI: Mode = Mode { multi: true, ..SINGLE };
const INLINE: Mode = Mode { inline_from: Some(0), ..MULTI };

fn ring(memory: &mut HostMemory, log_blocks: u32) -> Ring {
    Ring::allocate(log_blocks, BLOCK_BYTES, memory)
}

fn pointer(n: u64, len_bytes: u32) -> Pointer {
    Pointer { address: 0x10_0000 + n * 2048, len_bytes, key: 0x77 }
}

/// One packet as the NIC sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Pieces(Ethernet, Vec<Pointer>),
    Bytes(Ethernet, Vec<u8>),
}

/// Reads entries from `from` to `until` as a NIC does. Returns the packets, each entry's kind and blocks, and
/// the entries that wanted a completion.
fn read(memory: &HostMemory, ring: &Ring, from: u32, until: u32) -> (Vec<Seen>, Vec<(Kind, u32)>, Vec<u16>) {
    let (mut seen, mut entries, mut wanted, mut at) = (Vec::new(), Vec::new(), Vec::new(), from as u16);
    while u32::from(at) != until {
        let to_edge = ring.to_edge(at.into()).min(BLOCKS_MAX);
        let bytes = memory.bytes(ring.at(at.into()), to_edge as usize * BLOCK_BYTES).unwrap();
        let entry = Entry::parse(bytes, at).unwrap();
        entries.push((entry.control.kind, entry.blocks));
        if entry.control.completion {
            wanted.push(at);
        }
        let mut pieces = Vec::new();
        for content in entry.contents(bytes) {
            match (content.unwrap(), entry.control.kind) {
                (Content::Bytes(bytes), _) => seen.push(Seen::Bytes(entry.ethernet, bytes.to_vec())),
                (Content::Pointer(pointer), Kind::Send) => pieces.push(pointer),
                (Content::Pointer(pointer), _) => seen.push(Seen::Pieces(entry.ethernet, vec![pointer])),
            }
        }
        if !pieces.is_empty() {
            seen.push(Seen::Pieces(entry.ethernet, pieces));
        }
        at = at.wrapping_add(entry.blocks as u16);
    }
    (seen, entries, wanted)
}

#[test]
fn one_packet_to_an_entry_is_laid_out_as_the_kernel_has_it() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 5);
    let mut writer = EntryWriter::new(ring, 0x1234, SINGLE);
    let ethernet = Ethernet { checksums: 0xc0, ..Ethernet::default() };
    let packet = Outgoing { ethernet, pieces: &[pointer(0, 60)], bytes: None };
    writer.push(&packet, &mut memory).unwrap();
    assert_eq!(writer.ring(&mut memory).unwrap(), Some(1));
    let wanted: [u8; 48] = [
        0, 0, 0, 0x0a, 0, 0x12, 0x34, 3, 0, 0, 0, 8, 0, 0, 0,
        0, // control: SEND, 3 segments, completion
        0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // Ethernet: both checksums
        0, 0, 0, 60, 0, 0, 0, 0x77, 0, 0, 0, 0, 0, 0x10, 0, 0, // pointer
    ];
    assert_eq!(memory.read::<48>(ring.address).unwrap(), wanted);
    assert_eq!((writer.outstanding(), writer.ring(&mut memory).unwrap()), (1, None));
    assert_eq!((writer.completed(0), writer.outstanding()), (Ok(1), 0));
    let error = writer.completed(0).unwrap_err().to_string();
    assert_eq!(error, "completion of entry 0, which is not outstanding (0 are)");
}

#[test]
fn an_entry_holds_58_pointers_or_11_short_packets() {
    let bytes = [7u8; 64];
    for (mode, blocks, first) in [(MULTI, 15, POINTERS_MAX as usize), (INLINE, 15, 11)] {
        let mut memory = HostMemory::default();
        let ring = ring(&mut memory, 6);
        let mut writer = EntryWriter::new(ring, 0x1234, mode);
        for n in 0..=first as u64 {
            let packet =
                Outgoing { ethernet: Ethernet::default(), pieces: &[pointer(n, 64)], bytes: Some(&bytes) };
            writer.push(&packet, &mut memory).unwrap();
        }
        let until = writer.ring(&mut memory).unwrap().unwrap();
        let (seen, entries, wanted) = read(&memory, &ring, 0, until);
        let last = if mode == INLINE { 2 } else { 1 };
        assert_eq!(entries, [(Kind::Multi, blocks), (Kind::Multi, last)]);
        assert_eq!((seen.len(), wanted), (first + 1, vec![15]), "one completion, with the doorbell");
        assert_eq!(writer.completed(15), Ok(first + 1), "it is for both entries");
    }
}

#[test]
fn unshareable_packet_closes_the_session() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 6);
    let mut writer = EntryWriter::new(ring, 0x1234, MULTI);
    let plain = Ethernet::default();
    let two = [pointer(8, 100), pointer(9, 50)];
    let packets: [(Ethernet, &[Pointer]); 8] = [
        (plain, &[pointer(0, 60)]),
        (plain, &[pointer(1, 60)]),
        (Ethernet { checksums: 0xc0, ..plain }, &[pointer(2, 60)]),
        (Ethernet { vlan: Some(5), ..plain }, &[pointer(3, 60)]),
        (Ethernet { mss: 1460, ..plain }, &[pointer(4, 60)]),
        (Ethernet { metadata: 1, ..plain }, &[pointer(5, 60)]),
        (plain, &two),
        (plain, &[pointer(6, 60)]),
    ];
    for (ethernet, pieces) in packets {
        writer.push(&Outgoing { ethernet, pieces, bytes: None }, &mut memory).unwrap();
    }
    let until = writer.ring(&mut memory).unwrap().unwrap();
    let (seen, entries, _) = read(&memory, &ring, 0, until);
    use Kind::{Multi, Send};
    let kinds: Vec<_> = entries.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Multi, Multi, Send, Send, Send, Send, Multi]);
    assert_eq!(seen, packets.map(|(ethernet, pieces)| Seen::Pieces(ethernet, pieces.to_vec())));
    let none = Outgoing { ethernet: plain, pieces: &[], bytes: None };
    let error = writer.push(&none, &mut memory).unwrap_err().to_string();
    assert_eq!(error, "a packet in 0 pieces: 1 to 58 can be");
}

#[test]
fn packets_travel_inside_from_128_outstanding_until_10() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 8);
    let mut writer = EntryWriter::new(ring, 0x1234, Mode { inline_from: Some(128), ..MULTI });
    let send = |writer: &mut EntryWriter, memory: &mut HostMemory| {
        let bytes = [1u8; 60];
        let pieces = [pointer(0, 60)];
        let packet = Outgoing { ethernet: Ethernet::default(), pieces: &pieces, bytes: Some(&bytes) };
        writer.push(&packet, memory).unwrap();
    };
    (0..130).for_each(|_| send(&mut writer, &mut memory));
    let until = writer.ring(&mut memory).unwrap().unwrap();
    let (seen, ..) = read(&memory, &ring, 0, until);
    let inside = |seen: &[Seen]| seen.iter().map(|seen| matches!(seen, Seen::Bytes(..))).collect::<Vec<_>>();
    let wanted: Vec<_> = (0..130).map(|n| n >= 128).collect();
    assert_eq!(inside(&seen), wanted);
    // Down to 10, and one more: with 11 outstanding it would still travel inside.
    let last = read(&memory, &ring, 0, until).2[0];
    assert_eq!(writer.completed(last), Ok(130));
    send(&mut writer, &mut memory);
    let end = writer.ring(&mut memory).unwrap().unwrap();
    assert_eq!(inside(&read(&memory, &ring, until, end).0), [false]);
}

#[test]
fn a_full_ring_takes_no_more_and_loses_nothing() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 5);
    let mut writer = EntryWriter::new(ring, 0x1234, SINGLE);
    let packet = Outgoing { ethernet: Ethernet::default(), pieces: &[pointer(0, 60)], bytes: None };
    (0..32).for_each(|_| writer.push(&packet, &mut memory).unwrap());
    assert_eq!(writer.push(&packet, &mut memory), Err(WriteError::Full { blocks: 32 }));
    assert_eq!(writer.outstanding(), 32);
    writer.ring(&mut memory).unwrap();
    assert!(writer.completed(31).is_ok() && writer.push(&packet, &mut memory).is_ok());
}

#[test]
fn hostile_entries_are_errors() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 5);
    let mut writer = EntryWriter::new(ring, 0x1234, INLINE);
    let bytes = [9u8; 60];
    let packet = Outgoing { ethernet: Ethernet::default(), pieces: &[pointer(0, 60)], bytes: Some(&bytes) };
    (0..3).for_each(|_| writer.push(&packet, &mut memory).unwrap());
    writer.ring(&mut memory).unwrap();
    let good = memory.bytes(ring.address, 4 * BLOCK_BYTES).unwrap().to_vec();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let entry = Entry::parse(&bytes, 0)?;
        entry.contents(&bytes).try_for_each(|content| content.map(|_| ()))
    };
    assert_eq!(with(16, 0), Ok(()));
    assert_eq!(with(3, 0x55), Err(EntryError::Opcode(0x55)));
    assert_eq!(with(2, 1), Err(EntryError::Index { found: 1, wanted: 0 }));
    assert_eq!(with(7, 0), Err(EntryError::Segments(0)));
    assert_eq!(with(7, 2), Err(EntryError::Segments(2)));
    assert_eq!(with(7, 61), Err(EntryError::Segments(61)));
    assert_eq!(
        with(7, 60),
        Err(EntryError::Short { blocks: 15 }),
        "a session that goes on beyond what is there"
    );
    assert_eq!(with(35, 0), Err(EntryError::Inline(0)));
    assert_eq!(with(35, 253), Err(EntryError::Inline(253)));
    assert_eq!(with(33, 0xff), Err(EntryError::Inline(0xff_003c)));
    assert_eq!(with(7, 5), Err(EntryError::Inline(60)), "a packet that ends beyond its entry");
    assert_eq!(Entry::parse(&[], 0), Err(EntryError::Short { blocks: 1 }));
}

#[derive(Debug, Clone)]
struct Any {
    ethernet: Ethernet,
    pieces: Vec<Pointer>,
    bytes: Option<Vec<u8>>,
    ring: bool,
}

fn any_packet() -> impl Strategy<Value = Any> {
    let ethernet = prop_oneof![
        12 => Just(Ethernet::default()),
        2 => Just(Ethernet { checksums: 0xc0, ..Ethernet::default() }),
        1 => Just(Ethernet { mss: 1448, ..Ethernet::default() }),
        1 => any::<u16>().prop_map(|tag| Ethernet { vlan: Some(tag), ..Ethernet::default() }),
    ];
    let piece = (any::<u64>(), 1u32..1 << 18, any::<u32>());
    let piece = piece.prop_map(|(address, len_bytes, key)| Pointer { address, len_bytes, key });
    let pieces = prop_oneof![
        12 => proptest::collection::vec(piece.clone(), 1),
        1 => proptest::collection::vec(piece, 2..20),
    ];
    let bytes = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..300));
    (ethernet, pieces, bytes, 0u8..20).prop_map(|(ethernet, pieces, bytes, ring)| Any {
        ethernet,
        pieces,
        bytes,
        ring: ring == 0,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// All that is written is read, the same, in order; entries are in one piece, and each is accounted for
    /// once.
    #[test]
    fn reading_is_the_inverse_of_writing(
        packets in proptest::collection::vec(any_packet(), 1..200),
        multi in any::<bool>(), inline_from in proptest::option::of(0usize..30), each in any::<bool>(),
        start in any::<u16>(), log_blocks in 5u32..9,
    ) {
        let mut memory = HostMemory::default();
        let ring = ring(&mut memory, log_blocks);
        let mode = Mode { multi, inline_from, completion_each: each };
        let mut writer = EntryWriter::new(ring, 0x1234, mode).starting_at(start);
        let (mut read_to, mut seen, mut done) = (u32::from(start), Vec::new(), 0);
        for packet in &packets {
            let bytes = packet.bytes.as_deref();
            let outgoing = Outgoing { ethernet: packet.ethernet, pieces: &packet.pieces, bytes };
            let mut tries = 0;
            loop {
                let pushed = writer.push(&outgoing, &mut memory);
                if pushed.is_ok() && !packet.ring {
                    break;
                }
                if let Some(until) = writer.ring(&mut memory).unwrap() {
                    let (new, _, wanted) = read(&memory, &ring, read_to, until);
                    seen.extend(new);
                    read_to = until;
                    for index in wanted {
                        done += writer.completed(index).unwrap();
                    }
                }
                if pushed.is_ok() {
                    break;
                }
                tries += 1;
                prop_assert!(tries < 2, "an empty ring takes any packet");
            }
        }
        if let Some(until) = writer.ring(&mut memory).unwrap() {
            let (new, _, wanted) = read(&memory, &ring, read_to, until);
            seen.extend(new);
            for index in wanted {
                done += writer.completed(index).unwrap();
            }
        }
        prop_assert_eq!((done, writer.outstanding()), (packets.len(), 0));
        prop_assert_eq!(seen.len(), packets.len());
        for (seen, packet) in seen.iter().zip(&packets) {
            match seen {
                Seen::Pieces(ethernet, pieces) => {
                    prop_assert_eq!((ethernet, pieces), (&packet.ethernet, &packet.pieces));
                }
                Seen::Bytes(ethernet, bytes) => {
                    prop_assert_eq!((ethernet, Some(bytes)), (&packet.ethernet, packet.bytes.as_ref()));
                    prop_assert!(multi && bytes.len() <= 252);
                }
            }
        }
    }

    /// Any bytes: an entry or an error, no more packets than segments, never a panic.
    #[test]
    fn any_bytes_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..1100), kind in 0usize..4) {
        if let (Some(opcode), true) = (bytes.get_mut(3), kind < 3) {
            *opcode = [0, 0x0a, 0x29][kind];
        }
        let index = if bytes.len() > 2 { u16::from_be_bytes([bytes[1], bytes[2]]) } else { 0 };
        if let Ok(entry) = Entry::parse(&bytes, index) {
            prop_assert!((1..=BLOCKS_MAX).contains(&entry.blocks));
            prop_assert!(entry.contents(&bytes).count() <= POINTERS_MAX as usize);
        }
    }
}
