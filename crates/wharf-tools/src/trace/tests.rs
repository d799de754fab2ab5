use super::handoff::{Disk, Handoff, State, write_all};
use super::*;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use wharf_core::pool::PagePool;
use wharf_devices::null::Null;
use wharf_devices::pcap::format::{FileFormat, PcapOptions, PcapWriter};

/// A clock that stands still.
#[derive(Debug)]
struct At(u64);

impl Clock for At {
    fn now_ns(&self) -> u64 {
        self.0
    }
}

/// A disk that waits for permission before each write, and has limited room.
struct Slow {
    go: Receiver<()>,
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test has dropped the permissions: the disk is fast from now on.
        let _ = self.go.recv();
        let mut file = self.bytes.lock().unwrap();
        let count = bytes.len().min(self.room - file.len());
        file.extend_from_slice(&bytes[..count]);
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for Slow {
    fn len_bytes(&self) -> Option<u64> {
        None
    }

    fn cut(&mut self, len_bytes: u64) {
        self.bytes.lock().unwrap().truncate(len_bytes as usize - 24);
    }
}

/// Sends `frames` frames of 1000 bytes over a traced null device onto such a disk, then lets the disk go on and closes. Returns the
/// frames in the file, those missed, and the result of closing.
fn over_disk(room: usize, frames: u64) -> (u64, u64, Result<(), DeviceError>, Vec<u8>) {
    let (word, go) = channel();
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let disk = Slow { go, bytes: bytes.clone(), room };
    let file = std::fs::File::create("/dev/null").unwrap();
    let start = |handoff: &mut Handoff, counts| {
        // The header goes to the file; the thread gets the disk in its place.
        handoff.forget_file();
        handoff.start_to(disk, counts)
    };
    let inner = Box::new(Null::default());
    let trace = TraceFile::over("trace:x".into(), Handoff::direct(file, FileFormat::Pcap), start)
        .unwrap()
        .around(inner);
    let mut trace = trace.clock(Arc::new(At(7)));
    let counts = trace.counts();
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    trace.attach(pool.region().clone()).unwrap();
    let mut cache = pool.cache("test").unwrap();
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    for _ in 0..frames {
        cache.take(&mut batch, 1, 1000).unwrap();
        trace.transmit(&mut batch, false);
        trace.reap(64, false, &mut done).unwrap();
        assert_eq!(done.sent.len(), 1, "the path loses nothing, and waits for no disk");
        cache.give(&mut done.sent).unwrap();
    }
    drop(word);
    let closed = trace.close();
    let bytes = bytes.lock().unwrap().clone();
    (counts.frames(), counts.missed(), closed, bytes)
}

const RECORD_BYTES: u64 = 1016;

#[test]
fn a_slow_disk_costs_the_trace_frames_and_the_path_none() {
    let (frames, missed, closed, bytes) = over_disk(usize::MAX, 40_000);
    assert!(missed > 20_000, "{missed} of 40 000: 16 MiB wait at most");
    assert_eq!((frames + missed, bytes.len() as u64), (40_000, frames * RECORD_BYTES));
    let line = closed.unwrap_err().to_string();
    assert_eq!(line, format!("trace:x: {missed} of 40000 frames are not in the file: the disk was too slow"));
}

#[test]
fn a_full_disk_ends_the_trace_at_a_whole_frame() {
    let (frames, missed, closed, bytes) = over_disk(100_000, 1000);
    assert_eq!((frames + missed, bytes.len() as u64), (1000, frames * RECORD_BYTES));
    assert!((1..=98).contains(&frames), "{frames} fit");
    let line = closed.unwrap_err().to_string();
    assert!(line.starts_with(&format!("trace:x: {missed} of 1000 frames are not in the file: ")), "{line}");
}

#[test]
fn a_good_disk_gets_every_frame_and_closing_succeeds() {
    let (frames, missed, closed, bytes) = over_disk(usize::MAX, 500);
    assert_eq!((frames, missed, bytes.len() as u64), (500, 0, 500 * RECORD_BYTES));
    closed.unwrap();
}

/// A forwarder may replace all of its devices while it runs.
#[test]
fn a_file_that_is_held_outlives_its_devices() {
    let path = std::env::temp_dir().join(format!("wharf-held-{}.pcap", std::process::id()));
    let file = TraceFile::create(&path).unwrap();
    file.hold();
    for _ in 0..2 {
        let mut trace = file.around(Null::default());
        file.lock().record(&file.counts, 1, [&[7; 1000][..]].into_iter(), 1000);
        trace.close().unwrap();
    }
    file.leave().unwrap();
    assert_eq!((file.counts().frames(), file.counts().missed()), (2, 0));
    file.hold();
    file.lock().record(&file.counts, 1, [&[7; 1000][..]].into_iter(), 1000);
    assert!(file.leave().unwrap_err().to_string().contains("1 of 3 frames are not in the file"));
    std::fs::remove_file(&path).unwrap();
}

/// `copytruncate` of `logrotate(8)`.
#[test]
fn a_file_that_was_cut_begins_anew() {
    let path = std::env::temp_dir().join(format!("wharf-cut-{}.pcap", std::process::id()));
    let file = TraceFile::create(&path).unwrap();
    file.lock().users = 1;
    let records = || (std::fs::metadata(&path).unwrap().len() - 24) / RECORD_BYTES;
    let write = |frames: u8, all: u64| {
        let bytes = [7; 1000];
        (0..frames).for_each(|_| file.lock().record(&file.counts, 1, [&bytes[..]].into_iter(), 1000));
        wharf_devices::pcap::flush_all();
        file.lock().flush_late();
        wharf_testkit::threads::eventually(Duration::from_secs(20), || {
            std::fs::metadata(&path).unwrap().len() == 24 + all * RECORD_BYTES
        });
        records()
    };
    assert_eq!(write(3, 3), 3);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(write(2, 2), 2);
    file.leave().unwrap();
    assert!(wharf_devices::pcap::format::PcapReader::open(&path).is_ok());
    std::fs::remove_file(&path).unwrap();
}

/// The frames of a chunk that waited as the file was emptied are in it, and no frame is missed; one that was
/// made shorter is another program's.
#[test]
fn a_file_that_is_cut_while_chunks_wait_begins_anew() {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x", PcapOptions::default()).unwrap();
    (0..2).for_each(|_| writer.write(1, [&[7; 1000][..]], 1000).unwrap());
    writer.finish().unwrap();
    let (head, records) = bytes.split_at(24);
    for (left_bytes, missed) in [(0, 0), (10, 2)] {
        let path = std::env::temp_dir().join(format!("wharf-waits-{}.pcap", std::process::id()));
        let disk = std::fs::File::options().create(true).append(true).open(&path).unwrap();
        disk.set_len(left_bytes).unwrap();
        let ((chunks, theirs), counts) = (channel(), TraceCounts::default());
        chunks.send(records.to_vec()).unwrap();
        drop(chunks);
        write_all(disk, &theirs, &State::default(), &counts, FileFormat::Pcap, head);
        let there = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let want_bytes = if missed == 0 { bytes.len() as u64 } else { left_bytes };
        assert_eq!((there.len() as u64, counts.missed()), (want_bytes, missed));
    }
}

#[test]
fn a_file_that_was_moved_keeps_its_frames_and_a_new_one_gets_the_next() {
    let folder = std::env::temp_dir().join(format!("wharf-reopen-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [path, moved] = ["now.pcap", "before.pcap"].map(|name| folder.join(name));
    let file = TraceFile::create(&path).unwrap();
    let mut trace = file.around(Box::new(Null::default()));
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    trace.attach(pool.region().clone()).unwrap();
    let mut cache = pool.cache("test").unwrap();
    let mut send = |frames: usize| {
        let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
        cache.take(&mut batch, frames, 1000).unwrap();
        trace.transmit(&mut batch, false);
        trace.reap(64, false, &mut done).unwrap();
        cache.give(&mut done.sent).unwrap();
    };
    send(3);
    assert!(!file.reopen(&path).unwrap(), "it is where it was");
    std::fs::rename(&path, &moved).unwrap();
    send(4);
    // `logrotate` does this with `create`.
    std::fs::write(&path, b"").unwrap();
    assert!(file.reopen(&path).unwrap());
    send(5);
    trace.close().unwrap();
    let records = |path| (std::fs::metadata(path).unwrap().len() - 24) / RECORD_BYTES;
    assert_eq!((records(&moved), records(&path), file.counts().frames()), (7, 5, 12));
    assert!(!file.reopen(&moved).unwrap() && records(&moved) == 7, "nothing is written any more");
    std::fs::remove_dir_all(&folder).unwrap();
}
