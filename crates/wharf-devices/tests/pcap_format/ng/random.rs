//! pcapng files of any make are read as they were written; damaged ones are no panic, and an error of one
//! line.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::random::Damage;
use super::*;

/// A part of a file.
#[derive(Debug, Clone)]
enum Part {
    Section(bool),
    Interface { link_is_ethernet: bool, snap_len: u32, resolution: u8, offset_s: i64 },
    Enhanced { interface: prop::sample::Index, units: u64, beyond: u32, data: Vec<u8> },
    Obsolete { interface: prop::sample::Index, units: u64, beyond: u32, data: Vec<u8> },
    Simple { beyond: u32, data: Vec<u8> },
    Other { kind: u32, body: Vec<u8> },
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let index = any::<prop::sample::Index>;
    let data = || vec(any::<u8>(), 1..90);
    let interface =
        (prop::bool::weighted(0.8), prop_oneof![Just(0), 1..100u32], 0..20u8, any::<bool>(), -9..9i64);
    let part = prop_oneof![
        1 => any::<bool>().prop_map(Part::Section),
        3 => interface.prop_map(|(link_is_ethernet, snap_len, digits, is_binary, offset_s)| Part::Interface {
            link_is_ethernet, snap_len, offset_s, resolution: if is_binary { 0x80 | (digits * 3) } else { digits },
        }),
        6 => (index(), any::<u64>(), 0..3u32, data())
            .prop_map(|(interface, units, beyond, data)| Part::Enhanced { interface, units, beyond, data }),
        2 => (index(), any::<u64>(), 0..3u32, data())
            .prop_map(|(interface, units, beyond, data)| Part::Obsolete { interface, units, beyond, data }),
        2 => (0..3u32, data()).prop_map(|(beyond, data)| Part::Simple { beyond, data }),
        2 => (prop_oneof![Just(4u32), Just(5), 7..u32::MAX], vec(any::<u8>(), 0..50))
            .prop_map(|(kind, body)| Part::Other { kind, body }),
    ];
    vec(part, 0..30)
}

/// An interface, as the model has it.
#[derive(Clone, Copy)]
struct Described {
    is_ethernet: bool,
    snap_len: u32,
    resolution: u8,
    offset_s: i64,
}

impl Described {
    /// The exact time, by 128 bits throughout; `None` where 64 bits of nanoseconds do not hold it.
    fn ts_ns(&self, units: u64) -> Option<u64> {
        let per_second = match self.resolution & 0x80 {
            0 => 10i128.pow(self.resolution.into()),
            _ => 1i128 << (self.resolution & 0x7f),
        };
        let whole = i128::from(units) / per_second;
        let rest = i128::from(units) % per_second;
        u64::try_from((whole + i128::from(self.offset_s)) * 1_000_000_000 + rest * 1_000_000_000 / per_second)
            .ok()
    }
}

/// Writes a file of the parts that are valid where they stand; and the packets to read from it.
struct Writing {
    file: Ng,
    interfaces: Vec<Described>,
    last_ns: u64,
    expected: Vec<Packet>,
}

impl Writing {
    fn add(mut self, part: Part) -> Self {
        match part {
            Part::Section(is_big) => {
                self.interfaces.clear();
                self.file = self.file.section(if is_big { ByteOrder::Big } else { ByteOrder::Little });
            }
            Part::Interface { link_is_ethernet, snap_len, resolution, offset_s } => {
                let described = Described { is_ethernet: link_is_ethernet, snap_len, resolution, offset_s };
                self.interfaces.push(described);
                let options = [(9, vec![resolution]), (14, self.file.u64(offset_s as u64).to_vec())];
                self.file = self.file.interface(if link_is_ethernet { 1 } else { 105 }, snap_len, &options);
            }
            Part::Enhanced { interface, units, beyond, data } => {
                if let Some((place, ts_ns)) = self.fits(interface, units) {
                    let wire = data.len() as u32 + beyond;
                    self.file = self.file.enhanced(place, units, wire, &data);
                    self.expect(ts_ns, wire, data);
                }
            }
            Part::Obsolete { interface, units, beyond, data } => {
                if let Some((place, ts_ns)) = self.fits(interface, units) {
                    let wire = data.len() as u32 + beyond;
                    self.file = self.file.obsolete(place as u16, units, wire, &data);
                    self.expect(ts_ns, wire, data);
                }
            }
            Part::Simple { beyond, mut data } => {
                if let Some(first) = self.interfaces.first().filter(|first| first.is_ethernet).copied() {
                    let wire = data.len() as u32 + beyond;
                    let captured = if first.snap_len == 0 { wire } else { wire.min(first.snap_len) };
                    data.resize(captured as usize, 9);
                    self.file = self.file.simple(wire, &data);
                    self.expect(self.last_ns, wire, data);
                }
            }
            Part::Other { kind, body } if kind != 0x0a0d_0d0a => self.file = self.file.block(kind, &body),
            Part::Other { .. } => {}
        }
        self
    }

    /// An interface of which such a packet can be.
    fn fits(&self, interface: prop::sample::Index, units: u64) -> Option<(u32, u64)> {
        let place = (!self.interfaces.is_empty()).then(|| interface.index(self.interfaces.len()))?;
        let described = self.interfaces[place];
        described.is_ethernet.then_some((place as u32, described.ts_ns(units)?))
    }

    fn expect(&mut self, ts_ns: u64, wire_len: u32, data: Vec<u8>) {
        self.last_ns = ts_ns;
        self.expected.push((Record { ts_ns, wire_len, left_out: None }, data));
    }
}

fn written(is_big: bool, parts: Vec<Part>) -> Writing {
    let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
    let empty = Writing { file: Ng::new(order), interfaces: Vec::new(), last_ns: 0, expected: Vec::new() };
    parts.into_iter().fold(empty, Writing::add)
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (packets, error) = read_all(bytes);
    let held: usize = packets.iter().map(|(_, data)| data.len() + 16).sum();
    prop_assert!(held <= bytes.len());
    if let Some(error) = error {
        let message = error.to_string();
        prop_assert_eq!(message.lines().count(), 1);
        let PcapError::Malformed { offset_bytes, .. } = error else {
            return Err(TestCaseError::fail(message));
        };
        prop_assert!(offset_bytes as usize <= bytes.len(), "{}", message);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_written_file_is_read_back(is_big in any::<bool>(), parts in parts()) {
        let writing = written(is_big, parts);
        let (read, error) = read_all(&writing.file.bytes);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(read, writing.expected);
    }

    #[test]
    fn damaged_files(is_big in any::<bool>(), parts in parts(), damage in vec(Damage::strategy(), 1..4)) {
        let mut bytes = written(is_big, parts).file.bytes;
        for one in damage {
            one.apply(&mut bytes);
        }
        check(&bytes)?;
    }

    #[test]
    fn random_bytes_after_a_good_start(is_big in any::<bool>(), tail in vec(any::<u8>(), 0..300)) {
        let start = written(is_big, Vec::new()).file.interface(1, 0, &[]).bytes;
        check(&[start, tail].concat())?;
    }
}
