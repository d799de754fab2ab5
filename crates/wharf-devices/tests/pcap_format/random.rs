//! Random and randomly damaged files: no panic, no hang, and an error of one line
//! that names the place.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (packets, error) = read_all(bytes);
    // Packets of another link type become frames of other lengths, and check sequences are cut off.
    let is_whole =
        bytes.get(20..24).is_none_or(|field| [[1, 0, 0, 0], [0, 0, 0, 1]].iter().any(|one| one == field));
    let used_bytes: usize = packets.iter().map(|(_, data)| 16 + data.len()).sum();
    prop_assert!(!is_whole || packets.is_empty() || 24 + used_bytes <= bytes.len());
    for (record, data) in &packets {
        prop_assert!(data.len() <= record.wire_len as usize);
    }
    let Some(error) = error else {
        prop_assert!(!is_whole || 24 + used_bytes == bytes.len(), "the end is the end of the file");
        return Ok(());
    };
    let message = error.to_string();
    prop_assert_eq!(message.lines().count(), 1);
    let PcapError::Malformed { offset_bytes, .. } = error else {
        return Err(TestCaseError::fail(message));
    };
    prop_assert!(offset_bytes as usize <= bytes.len());
    prop_assert!(!is_whole || offset_bytes < 24 || offset_bytes as usize == 24 + used_bytes);
    let start = format!("x.pcap: byte {offset_bytes}: ");
    prop_assert!(message.starts_with(&start), "{}", message);
    Ok(())
}

fn options() -> impl Strategy<Value = PcapOptions> {
    (any::<bool>(), any::<bool>()).prop_map(|(nano, big)| PcapOptions {
        format: None,
        rotation: None,
        resolution: if nano { Resolution::Nanoseconds } else { Resolution::Microseconds },
        byte_order: if big { ByteOrder::Big } else { ByteOrder::Little },
    })
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0..4_000_000_000_000_000_000u64, vec(any::<u8>(), 1..200), 0..3u32);
    let packet = packet.prop_map(|(ts_ns, data, beyond)| {
        (Record { ts_ns, wire_len: data.len() as u32 + beyond, left_out: None }, data)
    });
    vec(packet, 0..8)
}

fn written(options: PcapOptions, packets: &[Packet]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x.pcap", options).unwrap();
    for (record, data) in packets {
        writer.write(record.ts_ns, data.chunks(7), record.wire_len).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

/// One way to damage a file.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    Set(prop::sample::Index, u8),
    SetWord(prop::sample::Index, u32),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
}

impl Damage {
    pub(super) fn strategy() -> impl Strategy<Value = Self> {
        let index = any::<prop::sample::Index>;
        prop_oneof![
            (index(), any::<u8>()).prop_map(|(at, value)| Self::Set(at, value)),
            (index(), prop_oneof![any::<u32>(), 0..100u32, Just(u32::MAX), Just(262_144)])
                .prop_map(|(at, value)| Self::SetWord(at, value)),
            index().prop_map(Self::Cut),
            (index(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Self::Insert(at, bytes)),
            index().prop_map(Self::Remove),
        ]
    }

    pub(super) fn apply(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Set(at, value) => *at.get_mut(bytes) = value,
            Self::SetWord(at, value) => {
                let at = at.index(bytes.len());
                let field = value.to_le_bytes();
                let len = field.len().min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&field[..len]);
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, new) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, new);
            }
            Self::Remove(at) => {
                bytes.remove(at.index(bytes.len()));
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..300)) {
        check(&bytes)?;
    }

    #[test]
    fn random_bytes_after_a_good_header(options in options(), tail in vec(any::<u8>(), 0..300)) {
        check(&[written(options, &[]), tail].concat())?;
    }

    #[test]
    fn damaged_files(
        options in options(),
        packets in packets(),
        damage in vec(Damage::strategy(), 1..4),
    ) {
        let mut bytes = written(options, &packets);
        for one in damage {
            one.apply(&mut bytes);
        }
        check(&bytes)?;
    }

    #[test]
    fn any_written_file_is_read_back(options in options(), packets in packets()) {
        let [(read, error), of_ng] = [FileFormat::Pcap, FileFormat::Pcapng]
            .map(|format| read_all(&written(PcapOptions { format: Some(format), ..options }, &packets)));
        prop_assert!(error.is_none() && of_ng.1.is_none(), "{:?}, {:?}", error, of_ng.1);
        prop_assert_eq!(&read, &of_ng.0, "both formats have the same");
        let unit_ns = u64::from(options.resolution.unit_ns());
        let expected: Vec<Packet> = packets
            .into_iter()
            .map(|(Record { ts_ns, wire_len, .. }, data)| {
                (Record { ts_ns: ts_ns - ts_ns % unit_ns, wire_len, left_out: None }, data)
            })
            .collect();
        prop_assert_eq!(read, expected);
    }
}
