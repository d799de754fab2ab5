use proptest::prelude::*;
use wharf_sim::nic::cx5::completion::{COMPLETION_BYTES, Completion, MINIS, Opcode, Selected};
use wharf_sim::nic::cx5::compress::{CompletionRing, CompletionWriter, Compress};
use wharf_sim::nic::cx5::expand::{CompletionError, CompletionReader};
use wharf_sim::nic::host_memory::{HostMemory, MemoryFault, Post};

fn received(counter: u16, byte_count: u32) -> Completion {
    Completion {
        opcode: Opcode::Received,
        counter,
        entry: 0,
        byte_count,
        hash: 0xdead_beef,
        hash_type: 2,
        checksum: 0,
        headers: 0x24,
        vlan: 0,
        queue: 7,
    }
}

fn ring(memory: &mut HostMemory, log_slots: u32) -> CompletionRing {
    CompletionRing { address: memory.allocate(COMPLETION_BYTES << log_slots), log_slots }
}

/// Writes through to memory, and counts.
struct Counted<'a>(&'a mut HostMemory, usize);

impl Post for Counted<'_> {
    fn post(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.1 += 1;
        self.0.post(address, bytes)
    }
}

#[test]
fn a_session_is_laid_out_as_the_driver_reads_it() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 4);
    let mut reader = CompletionReader::new(ring, Selected::Hash, &mut memory).unwrap();
    let compress = Some(Compress { selected: Selected::Hash, session_max: 16 });
    let mut writer = CompletionWriter::new(ring, compress);
    let mut counted = Counted(&mut memory, 0);
    for n in 0..9 {
        writer.push(received(n, 64 + u32::from(n)), &mut counted).unwrap();
    }
    assert_eq!((counted.1, writer.pending()), (0, 9), "nothing is written before the session closes");
    writer.flush(&mut counted).unwrap();
    assert_eq!(counted.1, 3, "two arrays and a title");
    let at = |slot: u64, byte: u64| memory.read::<1>(ring.address + slot * 64 + byte).unwrap()[0];
    assert_eq!((at(0, 47), at(0, 63)), (9, 0x2c), "9 completions; received, compressed, first pass");
    assert_eq!(memory.read::<8>(ring.address + 64).unwrap(), [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 64]);
    assert_eq!(at(8, 7), 72, "the ninth lies in the ninth slot");
    let read: Vec<_> = std::iter::from_fn(|| reader.next(&mut memory).unwrap()).collect();
    assert_eq!(read, (0..9).map(|n| received(n, 64 + u32::from(n))).collect::<Vec<_>>());
    assert_eq!(reader.position(), 9);
}

#[test]
fn differing_completion_breaks_a_session_and_a_single_one_is_plain() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 5);
    let mut reader = CompletionReader::new(ring, Selected::Hash, &mut memory).unwrap();
    let mut writer =
        CompletionWriter::new(ring, Some(Compress { selected: Selected::Hash, session_max: 64 }));
    let vlan = Completion { vlan: 5, ..received(2, 60) };
    let all = [received(0, 60), received(1, 1514), vlan, received(4, 60), received(5, 60), received(7, 60)];
    let mut counted = Counted(&mut memory, 0);
    all.iter().for_each(|completion| writer.push(*completion, &mut counted).unwrap());
    writer.flush(&mut counted).unwrap();
    assert_eq!(counted.1, 2 + 1 + 2 + 1);
    let read: Vec<_> = std::iter::from_fn(|| reader.next(&mut memory).unwrap()).collect();
    assert_eq!(read, all);
}

/// Slots taken within a session may be written again at once: buffers are posted for them.
#[test]
fn slots_of_a_session_are_free_as_they_are_taken() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 4);
    let mut reader = CompletionReader::new(ring, Selected::Hash, &mut memory).unwrap();
    let compress = Some(Compress { selected: Selected::Hash, session_max: 16 });
    let mut writer = CompletionWriter::new(ring, compress);
    (0..16).for_each(|n| writer.push(received(n, 64), &mut memory).unwrap());
    let mut next = 0;
    let mut take = |count: u16, memory: &mut HostMemory| {
        for _ in 0..count {
            assert_eq!(reader.next(memory).unwrap(), Some(received(next, 64)), "{next}");
            next += 1;
        }
    };
    for taken in 0..20 {
        take(11, &mut memory);
        (0..11).for_each(|n| writer.push(received(16 + taken * 11 + n, 64), &mut memory).unwrap());
        writer.flush(&mut memory).unwrap();
    }
    take(16, &mut memory);
}

/// Writes a hostile title. Returns the result of reading.
fn title_of(count: u32) -> Result<Option<Completion>, CompletionError> {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 6);
    let mut reader = CompletionReader::new(ring, Selected::Hash, &mut memory).unwrap();
    let mut writer = CompletionWriter::new(ring, Some(Compress { selected: Selected::Hash, session_max: 2 }));
    (0..2).for_each(|n| writer.push(received(n, 64), &mut memory).unwrap());
    memory.write(ring.address + 44, &count.to_be_bytes()).unwrap();
    let first = reader.next(&mut memory);
    // In any case reading goes on and ends.
    let more = std::iter::from_fn(|| reader.next(&mut memory).transpose()).take(1000).count();
    assert!(more <= 64, "{count}: {more}");
    first
}

#[test]
fn hostile_sessions_are_errors() {
    for count in [0, 1, 65, 255, u32::MAX] {
        let error = title_of(count).unwrap_err();
        assert_eq!(error.to_string(), format!("completion 0: a session of {count}, where 2 to 64 can be"));
    }
    assert!(title_of(2).is_ok() && title_of(64).is_ok());
}

#[test]
fn hostile_owner_bytes_are_no_completion_or_an_error() {
    let mut memory = HostMemory::default();
    let ring = ring(&mut memory, 2);
    let mut reader = CompletionReader::new(ring, Selected::Hash, &mut memory).unwrap();
    // Opcode "invalid" or unknown, an unknown format: errors, and skipped.
    for (slot, own) in [(0, 0xf0u8), (1, 0x30), (2, 0x24)] {
        memory.write(ring.address + slot * 64 + 63, &[own]).unwrap();
        let error = reader.next(&mut memory).unwrap_err();
        assert_eq!(error, CompletionError::Unreadable { index: slot as u32, own });
    }
    // The other pass's owner: not there yet.
    memory.write(ring.address + 3 * 64 + 63, &[0x21]).unwrap();
    assert_eq!(reader.next(&mut memory), Ok(None));
    // A queue that is not in memory at all.
    let nowhere = CompletionRing { address: 8, ..ring };
    assert!(CompletionReader::new(nowhere, Selected::Hash, &mut memory).is_err());
    let mut writer = CompletionWriter::new(nowhere, None);
    assert!(writer.push(received(0, 1), &mut memory).is_err());
}

fn any_completion() -> impl Strategy<Value = Completion> {
    // Few values each, so that sessions form and break.
    let opcode =
        prop_oneof![9 => Just(Opcode::Received), 1 => Just(Opcode::ReceiveError), 1 => Just(Opcode::Sent)];
    (opcode, 0u16..3, 0u16..2, any::<u32>(), 0u32..3, any::<bool>(), 0u16..2).prop_map(
        |(opcode, counter, entry, byte_count, hash, odd, checksum)| Completion {
            opcode,
            counter,
            entry,
            byte_count,
            hash,
            checksum,
            vlan: u16::from(odd) & entry,
            ..received(0, 0)
        },
    )
}

fn any_compress() -> impl Strategy<Value = Option<Compress>> {
    let selected = proptest::sample::select(vec![Selected::Hash, Selected::Checksum, Selected::Stride]);
    proptest::option::weighted(
        0.9,
        (selected, 0u32..80).prop_map(|(selected, session_max)| Compress { selected, session_max }),
    )
}

proptest! {
    /// All that is written is read, the same, in order; through many passes of a small queue, with indices
    /// that wrap.
    #[test]
    fn reading_is_the_inverse_of_writing(
        mut completions in proptest::collection::vec((any_completion(), 0u8..10), 0..300),
        compress in any_compress(), log_slots in 1u32..7, behind in 0u32..200,
    ) {
        let mut memory = HostMemory::default();
        let ring = ring(&mut memory, log_slots);
        let start = (behind / 2 * 2).wrapping_neg();
        let selected = compress.map_or(Selected::Hash, |compress| compress.selected);
        let reader = CompletionReader::new(ring, selected, &mut memory).unwrap();
        let mut reader = reader.starting_at(start, &mut memory).unwrap();
        let mut writer = CompletionWriter::new(ring, compress).starting_at(start);
        let mut counter = 65_500u16;
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for (completion, choice) in &mut completions {
            // Mostly counters that go up by one.
            counter = counter.wrapping_add(if *choice == 0 { completion.counter } else { 1 });
            completion.counter = counter;
            written.push(*completion);
            writer.push(*completion, &mut memory).unwrap();
            if *choice == 1 || written.len() - read.len() >= 1 << log_slots {
                writer.flush(&mut memory).unwrap();
            }
            // Read at most as many as the queue holds, now and then only a part of a session.
            let budget = if *choice == 2 { 3 } else { usize::MAX };
            let new = std::iter::from_fn(|| reader.next(&mut memory).unwrap()).take(budget);
            read.extend(new);
            if written.len() - read.len() >= (1 << log_slots) - 1 {
                writer.flush(&mut memory).unwrap();
                read.extend(std::iter::from_fn(|| reader.next(&mut memory).unwrap()));
            }
        }
        writer.flush(&mut memory).unwrap();
        read.extend(std::iter::from_fn(|| reader.next(&mut memory).unwrap()));
        prop_assert_eq!(read, written);
    }

    /// Any bytes: completions or errors, no more than there are slots, never a panic.
    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..=64 * 8), start in any::<u32>()) {
        let mut memory = HostMemory::default();
        let ring = ring(&mut memory, 3);
        let reader = CompletionReader::new(ring, Selected::Stride, &mut memory).unwrap();
        let mut reader = reader.starting_at(start, &mut memory).unwrap();
        memory.write(ring.address, &bytes).unwrap();
        let results = std::iter::from_fn(|| reader.next(&mut memory).transpose()).take(1000).count();
        prop_assert!(results <= 8 + MINIS, "{results}");
    }
}
