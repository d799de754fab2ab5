//! Captures that end within a record, or are damaged there: what comes before is replayed, from a file and
//! from a pipe alike.

use proptest::prelude::*;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use wharf_core::qdisc::Order;
use wharf_testkit::Scratch;
use wharf_tools::traffic::{Capture, Reading, Source, Split, StreamReplay};

/// The bytes of a capture, and where each of its records begins; the last offset is its end.
struct File {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl File {
    fn pcap(lens: &[u8]) -> Self {
        let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1];
        let record = |len: u8| {
            let fields = [1, 0, u32::from(len), u32::from(len)];
            [words(&fields), frame(len)].concat()
        };
        Self::of(words(&header), lens, record)
    }

    fn pcapng(lens: &[u8]) -> Self {
        let block = |kind: u32, body: &[u8]| {
            let body = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
            let len = body.len() as u32 + 12;
            [words(&[kind, len]), body, words(&[len])].concat()
        };
        let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        let header = [section, block(1, &words(&[1, 0]))].concat();
        let record = |len: u8| {
            let fields = [0, 0, 1_000_000, u32::from(len), u32::from(len)];
            block(6, &[words(&fields), frame(len)].concat())
        };
        Self::of(header, lens, record)
    }

    fn of(header: Vec<u8>, lens: &[u8], record: impl Fn(u8) -> Vec<u8>) -> Self {
        let (mut bytes, mut starts) = (header, Vec::new());
        for &len in lens {
            starts.push(bytes.len());
            bytes.extend(record(len));
        }
        starts.push(bytes.len());
        Self { bytes, starts }
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn frame(len: u8) -> Vec<u8> {
    (0..len).map(|at| len ^ at).collect()
}

/// The frames that a source sends.
fn all(mut source: impl Source) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while source.remaining() > 0 {
        if source.is_ready() {
            let mut bytes = vec![0; source.len_bytes() as usize];
            source.write(&mut bytes, 0);
            frames.push(bytes);
        }
    }
    frames
}

/// The frames of `bytes` as a file, sent `rounds` times, and the error.
fn by_file(path: &Path, bytes: &[u8], rounds: u64) -> (Vec<Vec<u8>>, Option<String>) {
    std::fs::write(path, bytes).unwrap();
    let capture = match Capture::load(path, u64::MAX, &Reading::default()) {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let error = capture.error().map(ToString::to_string);
    let split = Split::new(Arc::new(capture), 1, Order::All);
    (split.replays(rounds, u64::MAX).into_iter().flat_map(all).collect(), error)
}

/// The same, read as it is sent.
fn by_large_file(path: &Path, rounds: u64) -> (Vec<Vec<u8>>, Option<String>) {
    let replay = StreamReplay::open(path, rounds, 2048, &Reading::default()).unwrap();
    let state = replay.state();
    (all(replay), state.counts().error)
}

/// The same through a pipe.
fn by_pipe(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<String>) {
    let (from, mut to) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", from.as_raw_fd());
    to.write_all(bytes).unwrap(); // less than a pipe holds
    drop(to);
    let replay = StreamReplay::open(Path::new(&path), 1, 2048, &Reading::default()).unwrap();
    let state = replay.state();
    (all(replay), state.counts().error)
}

/// What an error says behind the file's name.
fn place(error: Option<String>) -> Option<String> {
    error.map(|error| error[error.find("byte ").unwrap()..].to_string())
}

/// Checks that the whole frames before record `at` of `file` are sent from a file and a pipe, and the error
/// names the record.
#[track_caller]
fn check_sent_before(lens: &[u8], bytes: &[u8], at: usize, file: &File) {
    let scratch = Scratch::new("damaged");
    let path = scratch.file("damaged.pcap");
    let before: Vec<Vec<u8>> = lens[..at].iter().map(|&len| frame(len)).collect();
    let (sent, error) = by_file(&path, bytes, 3);
    let error = place(error).expect("an error");
    assert!(error.starts_with(&format!("byte {}: ", file.starts[at])), "{error}");
    assert_eq!(sent, [&before[..]; 3].concat(), "{error}");
    assert_eq!(by_large_file(&path, 3), (sent, Some(format!("{}: {error}", path.display()))));
    let (sent, of_pipe) = by_pipe(bytes);
    assert_eq!((sent, place(of_pipe)), (before, Some(error)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn a_capture_that_ends_within_its_last_record_is_sent_up_to_there(lens in prop::collection::vec(1u8..80, 2..6)) {
        for file in [File::pcap(&lens), File::pcapng(&lens)] {
            let last = lens.len() - 1;
            for cut in file.starts[last] + 1..file.bytes.len() {
                check_sent_before(&lens, &file.bytes[..cut], last, &file);
            }
            let (sent, error) = by_pipe(&file.bytes[..file.starts[last]]);
            prop_assert_eq!((sent.len(), error), (last, None), "cut between two records");
        }
    }

    #[test]
    fn a_capture_with_a_damaged_record_is_sent_up_to_there(
        lens in prop::collection::vec(1u8..80, 2..6), at in any::<prop::sample::Index>()
    ) {
        let at = 1 + at.index(lens.len() - 1);
        let (pcap, pcapng) = (File::pcap(&lens), File::pcapng(&lens));
        let damaged = |file: &File, field: usize| {
            let (mut bytes, field) = (file.bytes.clone(), file.starts[at] + field);
            bytes[field..field + 4].fill(0xff);
            bytes
        };
        // The bytes captured; a block's length, its interface, and the bytes captured.
        check_sent_before(&lens, &damaged(&pcap, 8), at, &pcap);
        for field in [4, 8, 20] {
            check_sent_before(&lens, &damaged(&pcapng, field), at, &pcapng);
        }
    }
}

#[test]
fn a_capture_without_a_whole_record_is_an_error_and_not_empty() {
    let scratch = Scratch::new("damaged");
    for file in [File::pcap(&[60]), File::pcapng(&[60])] {
        let (sent, error) = by_file(&scratch.file("damaged.pcap"), &file.bytes[..file.starts[0] + 3], 1);
        let error = place(error).unwrap();
        assert!(sent.is_empty() && error.starts_with(&format!("byte {}: ", file.starts[0])), "{error}");
        assert!(error.contains("cut short"), "{error}");
    }
}
