//! Captures as devices: written packets are read back equal, errors name the place, and nothing is lost.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::device::{Completions, Device, DeviceError, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_devices::pcap::format::Rotation;
use wharf_devices::pcap::format::{ByteOrder, PcapOptions, PcapReader, PcapWriter, Record, SNAP_LEN_MAX};
use wharf_devices::pcap::{EMPTY, PcapSink, PcapSource, Snapped, TOO_LONG};
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_mem::{Batch, Meta};
use wharf_testkit::threads::TestClock;
use wharf_testkit::{Scratch, pool};

const NOW_NS: u64 = 1_700_000_000_123_456_789;

fn records(path: &Path) -> Vec<(Record, Vec<u8>)> {
    let (mut reader, mut bytes, mut records) = (PcapReader::open(path).unwrap(), Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut bytes).unwrap() {
        records.push((record, bytes.clone()));
    }
    records
}

/// Adds a frame with these bytes, and this time stamp if it is not 0.
fn push(cache: &mut Cache, batch: &mut Batch, bytes: &[u8], time_ns: u64) {
    cache.take(batch, 1, bytes.len() as u32).unwrap();
    let region = cache.pool().region().clone();
    let frame = batch.frames_mut().last_mut().unwrap();
    region.bytes_mut(frame).unwrap().copy_from_slice(bytes);
    if time_ns > 0 {
        region.set_meta(frame, &Meta { time_ns, ..Meta::default() }).unwrap();
    }
}

/// Takes completions home. Returns the number sent, and the reasons of the others.
fn reap(device: &mut dyn TxDevice, cache: &mut Cache) -> (usize, Vec<&'static str>) {
    let mut done = Completions::new(256);
    device.reap(256, false, &mut done).unwrap();
    let sent = done.sent.len();
    cache.give(&mut done.sent).unwrap();
    let reasons = done.failed.iter().map(|failed| failed.1).collect();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    (sent, reasons)
}

#[test]
fn queue_sends_into_a_capture_and_all_frames_are_in_it() {
    let scratch = Scratch::new("pcap");
    let path = scratch.file("sent.pcap");
    let pool = pool(512);
    let sink = PcapSink::create(&path, PcapOptions::default())
        .unwrap()
        .clock(Arc::new(TestClock(AtomicU64::new(NOW_NS))));
    let queue =
        TxQueue::builder(&pool, Box::new(sink), Arc::new(HostClock), Arc::new(HostPark)).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut expected = Vec::new();
    for number in 0..3000usize {
        let mut packet = sender.packet((1 + number * 37 % 1500) as u32, Wait::Never).unwrap();
        packet.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 3 + number) as u8);
        let mut bytes = packet.bytes().to_vec();
        if number % 10 == 0 {
            let mut piece = sender.packet(900, Wait::Never).unwrap();
            piece.bytes_mut().fill(number as u8);
            bytes.extend_from_slice(piece.bytes());
            packet.append(piece).unwrap();
        }
        let mut time_ns = NOW_NS;
        if number % 7 == 0 {
            time_ns = 1_000_000_000 + number as u64;
            packet.set_meta(&Meta { time_ns, ..packet.meta() });
        }
        expected.push((Record { ts_ns: time_ns, wire_len: bytes.len() as u32, left_out: None }, bytes));
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
    }
    assert!(queue.drain(Duration::MAX));
    drop(sender);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert!(records(&path) == expected, "written and read differ");
    assert_eq!((queue.counters().sent.get(), queue.counters().device_errors.get()), (3000, 0));
}

#[test]
fn a_capture_read_and_written_again_is_the_same() {
    let sample = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap"));
    let scratch = Scratch::new("pcap");
    for (orders, byte_order) in [("le", ByteOrder::Little), ("be", ByteOrder::Big)] {
        let copy = scratch.file("copy, again.pcap");
        let name = copy.display().to_string().replace(',', r"\,");
        let mut from = open(&format!("pcap:{}", sample.display()), Direction::Receive).unwrap().device;
        let mut to =
            open(&format!("pcap:{name},resolution=us,order={orders}"), Direction::Send).unwrap().device;
        let pool = pool(300);
        let mut cache = pool.cache("both").unwrap();
        to.attach(pool.region().clone()).unwrap();
        let mut batch = Batch::new(64);
        while !from.rx_mut().unwrap().ended() {
            from.rx_mut().unwrap().receive(&mut cache, &mut batch, 64).unwrap();
            to.tx_mut().unwrap().transmit(&mut batch, false);
            assert!(batch.is_empty());
            reap(to.tx_mut().unwrap(), &mut cache);
        }
        to.close().unwrap();
        assert_eq!((to.tx_mut().unwrap().outstanding(), pool.audit().out()), (0, 0));
        assert!(records(&copy) == records(sample), "the copy differs");
        let reader = PcapReader::open(&copy).unwrap();
        assert_eq!(reader.byte_order(), byte_order);
        let magic = if orders == "be" { [0xa1, 0xb2, 0xc3, 0xd4] } else { [0xd4, 0xc3, 0xb2, 0xa1] };
        assert_eq!(std::fs::read(&copy).unwrap()[..4], magic, "microseconds");
    }
}

#[test]
fn the_ring_is_bounded_and_a_closed_sink_takes_nothing() {
    let scratch = Scratch::new("pcap");
    let mut sink = PcapSink::create(&scratch.file("x.pcap"), PcapOptions::default()).unwrap();
    let pool = pool(1024);
    let mut cache = pool.cache("one").unwrap();
    sink.attach(pool.region().clone()).unwrap();
    let ring = sink.info().ring_frames.unwrap() as usize;
    let (mut batch, mut taken) = (Batch::new(64), 0);
    while taken < ring {
        (0..64).for_each(|_| push(&mut cache, &mut batch, &[1; 60], 0));
        let done = sink.transmit(&mut batch, true);
        taken += 64 - batch.len();
        assert_eq!((done.stopped, done.doorbell), (taken == ring, taken == ring));
        cache.give(&mut batch).unwrap();
    }
    let mut seen = 0;
    sink.visit(&mut |_| seen += 1);
    assert_eq!((seen, sink.outstanding()), (ring, ring));
    sink.close().unwrap();
    assert_eq!(reap(&mut sink, &mut cache), (ring, vec![]));
    push(&mut cache, &mut batch, &[1; 60], 0);
    assert!(sink.transmit(&mut batch, false).stopped && batch.len() == 1);
    cache.give(&mut batch).unwrap();
    assert_eq!(pool.audit().out(), 0);
}

/// A disk that can be full.
#[derive(Clone, Default)]
struct Disk {
    full: Arc<AtomicBool>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full.load(Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is read while it is written, and cut by another program, is a capture at any time.
#[test]
fn what_is_gathered_is_in_the_file_after_a_second_and_one_that_was_cut_begins_anew() {
    const S: u64 = 1_000_000_000;
    let scratch = Scratch::new("late");
    let path = scratch.file("late.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    let mut write = |second: u64| {
        writer.write(NOW_NS, [&[second as u8; 60][..]], 60).unwrap();
        writer.flush_late(second * S + S / 2).unwrap();
        records(&path).len()
    };
    assert_eq!([write(5), write(5), write(6)], [1, 1, 3], "the first is late, and so are those after it");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(write(7), 1);
    writer.finish().unwrap();
    assert_eq!(records(&path)[0].1, [7; 60]);
}

#[test]
fn a_file_that_is_cut_while_much_is_written_is_a_capture_at_once() {
    let scratch = Scratch::new("cut");
    let path = scratch.file("cut.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    let mut write = |frames: u64| {
        (0..frames).for_each(|_| writer.write(NOW_NS, [&[7; 1500][..]], 1500).unwrap());
    };
    write(1000);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    write(1000);
    assert!(records(&path).len() > 900);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    writer.finish().unwrap();
    assert!(!records(&path).is_empty(), "what is gathered at the end is a capture, too");
}

/// The names of tcpdump's usual ring come back after a day.
#[test]
fn files_whose_names_come_back_are_written_over_and_stay() {
    let scratch = Scratch::new("ring");
    let rotation = Some(Rotation::parse("every=1h,files=24").unwrap());
    let options = PcapOptions { rotation, ..PcapOptions::default() };
    let mut writer = PcapWriter::create(&scratch.file("%H.pcap"), options).unwrap();
    for hour in 0..60u64 {
        writer.write(NOW_NS + hour * 3_600_000_000_000, [&[hour as u8; 60][..]], 60).unwrap();
    }
    writer.finish().unwrap();
    let hours = (0..24).map(|hour| records(&scratch.file(format!("{hour:02}.pcap"))));
    let mut hours: Vec<u8> = hours.map(|records| records[0].1[0]).collect();
    hours.sort_unstable();
    assert_eq!(hours, (36..60).collect::<Vec<u8>>());
}

/// An idle queue is asked for its line now and then.
#[test]
fn the_sink_of_an_idle_queue_writes_what_it_has() {
    let scratch = Scratch::new("idle");
    let path = scratch.file("idle.pcap");
    let clock = Arc::new(TestClock(AtomicU64::new(5_000_000_000)));
    let mut sink = PcapSink::create(&path, PcapOptions::default()).unwrap().ticks(clock.clone());
    let (pool, mut batch) = (pool(64), Batch::new(64));
    let mut cache = pool.cache("test").unwrap();
    sink.attach(pool.region().clone()).unwrap();
    let mut send = |sink: &mut PcapSink| {
        push(&mut cache, &mut batch, &[1; 60], NOW_NS);
        sink.transmit(&mut batch, false);
        reap(sink, &mut cache);
    };
    send(&mut sink);
    send(&mut sink);
    clock.set(5_999_999_999);
    assert!(sink.link().is_none());
    assert_eq!(records(&path).len(), 1, "the second is not late");
    clock.set(6_000_000_000);
    assert!(sink.link().is_none());
    assert_eq!(records(&path).len(), 2);
    sink.close().unwrap();
}

#[test]
fn a_full_disk_fails_frames_and_is_reported_once() {
    let error = PcapSink::create(Path::new("/dev/full"), PcapOptions::default()).unwrap_err();
    assert!(matches!(&error, DeviceError::Io { device, .. } if device == "pcap:/dev/full"), "{error}");

    let disk = Disk::default();
    let mut sink = PcapSink::over(disk.clone(), "x.pcap", PcapOptions::default()).unwrap();
    let pool = pool(256);
    let mut cache = pool.cache("one").unwrap();
    sink.attach(pool.region().clone()).unwrap();
    let mut batch = Batch::new(64);
    let mut send = |sink: &mut PcapSink<Disk>, cache: &mut Cache| {
        (0..64).for_each(|_| push(cache, &mut batch, &[1; 1500], 1));
        sink.transmit(&mut batch, false);
    };
    disk.full.store(true, Relaxed);
    send(&mut sink, &mut cache);
    let buffered = 44; // 64 KiB and one record
    let mut done = Completions::new(256);
    let error = sink.reap(256, false, &mut done).unwrap_err().to_string();
    assert_eq!(error, "pcap:x.pcap: byte 24: cannot write: no storage space");
    assert_eq!((done.sent.len(), done.failed.len()), (buffered, 64 - buffered));
    assert!(done.failed.iter().all(|failed| failed.1 == "write-error"));
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    send(&mut sink, &mut cache);
    assert_eq!(reap(&mut sink, &mut cache), (0, vec!["write-error"; 64]), "and no second report");

    disk.full.store(false, Relaxed);
    send(&mut sink, &mut cache);
    assert_eq!(reap(&mut sink, &mut cache), (64, vec![]), "it goes on when there is room again");
    disk.full.store(true, Relaxed);
    let error = sink.close().unwrap_err().to_string();
    assert!(error.starts_with("pcap:x.pcap: byte ") && error.contains("cannot write"), "{error}");
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn frames_that_no_capture_can_hold_fail_with_their_reason() {
    let scratch = Scratch::new("pcap");
    let path = scratch.file("x.pcap");
    let mut sink = PcapSink::create(&path, PcapOptions::default()).unwrap();
    let pool = pool(8);
    let mut cache = pool.cache("one").unwrap();
    let mut batch = Batch::new(8);
    push(&mut cache, &mut batch, &[1], 0);
    sink.transmit(&mut batch, false);
    assert_eq!(reap(&mut sink, &mut cache), (0, vec!["not-attached"]));

    sink.attach(pool.region().clone()).unwrap();
    for (bytes, time_ns) in [(&[][..], 0), (&[1], 0), (&[], 0), (&[1], u64::MAX - 1)] {
        push(&mut cache, &mut batch, bytes, time_ns);
    }
    sink.transmit(&mut batch, false);
    let mut done = Completions::new(8);
    let error = sink.reap(8, false, &mut done).unwrap_err().to_string();
    assert_eq!(error, format!("pcap:{}: byte 24: record of length 0", path.display()));
    let reasons: Vec<_> = done.failed.iter().map(|failed| failed.1).collect();
    assert_eq!((done.sent.len(), reasons), (1, vec!["empty", "empty", "bad-time"]));
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    assert_eq!(pool.audit().out(), 0);
}

/// A capture of one whole packet, one of 100 bytes of which 60 were captured, and one whole.
fn snapped_capture(scratch: &Scratch) -> PathBuf {
    let path = scratch.file("snapped.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    for (captured, len) in [(70, 70), (60, 100), (80, 80)] {
        writer.write(5, [&vec![7u8; captured][..]], len).unwrap();
    }
    writer.finish().unwrap();
    path
}

#[test]
fn snapped_packets_are_an_error_unless_an_option_says_otherwise() {
    let scratch = Scratch::new("pcap");
    let path = snapped_capture(&scratch);
    let pool = pool(8);
    let mut cache = pool.cache("one").unwrap();
    let mut batch = Batch::new(8);

    let mut source = PcapSource::open(&path, Snapped::Refuse).unwrap();
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 1, "the records before it are delivered");
    assert!(!source.ended());
    let error = source.receive(&mut cache, &mut batch, 8).unwrap_err().to_string();
    let expected = format!(
        "pcap:{}: byte 110: record of 60 bytes was snapped from a packet of 100: replay it with snapped=pad or \
         snapped=send",
        path.display()
    );
    assert_eq!(error, expected);
    assert!(source.ended());
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 0);
    cache.give(&mut batch).unwrap();

    for (way, len) in [("pad", 100), ("send", 60)] {
        let spec = format!("pcap:{},snapped={way}", path.display());
        let mut source = open(&spec, Direction::Receive).unwrap().device;
        assert_eq!(source.rx_mut().unwrap().receive(&mut cache, &mut batch, 8).unwrap(), 3);
        let bytes = pool.region().bytes(&batch.frames()[1]).unwrap();
        assert_eq!((bytes.len(), &bytes[..60]), (len, &[7; 60][..]));
        assert!(bytes[60..].iter().all(|&byte| byte == 0));
        cache.give(&mut batch).unwrap();
    }
    assert_eq!(pool.audit().out(), 0);
}

/// Records are skipped, a budget's worth in a call, and counted with their reason.
#[test]
fn records_that_are_no_frames_are_dropped_by_reason() {
    let scratch = Scratch::new("pcap");
    let path = scratch.file("odd.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    let longest = vec![7u8; SNAP_LEN_MAX as usize];
    for len in [9, LENGTH_BYTES_MAX, LENGTH_BYTES_MAX + 1, 9] {
        writer.write(5, [&longest[..len as usize]], len).unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let empty = |wire: u32| [[0; 12], [0, 0, 0, 0, 0, 0, 0, 0, wire as u8, 0, 0, 0]].concat()[8..].to_vec();
    (0..20).for_each(|_| bytes.extend(empty(0)));
    bytes.extend(empty(60));
    std::fs::write(&path, bytes).unwrap();

    let pool = pool(512);
    let mut cache = pool.cache("one").unwrap();
    let mut batch = Batch::new(8);
    let cases = [(Snapped::Refuse, 21, 4), (Snapped::Send, 21, 4), (Snapped::Pad, 20, 5)];
    for (snapped, empty, frames) in cases {
        let mut source = PcapSource::open(&path, snapped).unwrap();
        let (mut received, mut calls) = (0, 0);
        while !source.ended() {
            received += source.receive(&mut cache, &mut batch, 8).unwrap();
            cache.give(&mut batch).unwrap();
            calls += 1;
        }
        let mut drops = Vec::new();
        source.drops(&mut |reason, count| drops.push((reason, count)));
        assert_eq!((received, calls), (frames - 1, 4), "{snapped:?}");
        assert_eq!(drops, [(EMPTY, empty), (TOO_LONG, 1)], "{snapped:?}");
    }
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn reading_waits_for_memory_and_builds_chains() {
    let scratch = Scratch::new("pcap");
    let path = scratch.file("long.pcap");
    let mut writer = PcapWriter::create(&path, PcapOptions::default()).unwrap();
    let long: Vec<u8> = (0..700).map(|n| n as u8).collect();
    for bytes in [&long[..100], &long[..], &long[..150]] {
        writer.write(9, [bytes], bytes.len() as u32).unwrap();
    }
    writer.finish().unwrap();
    let small = PagePool::builder().frames(4).frame_bytes(256).huge_pages(false).build().unwrap();
    let mut cache = small.cache("one").unwrap();
    let (mut batch, mut source) = (Batch::new(8), PcapSource::open(&path, Snapped::Refuse).unwrap());
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 1, "the second needs four frames");
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 0);
    assert!(!source.ended());
    cache.give(&mut batch).unwrap();
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 1);
    let frame = batch.pop().unwrap();
    let bytes: Vec<u8> = small.region().chunks(&frame).unwrap().flatten().copied().collect();
    assert_eq!((bytes, small.region().meta(&frame).unwrap().time_ns), (long, 9));
    cache.give_one(frame).unwrap();
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 1);
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 0);
    assert!(source.ended());
    cache.give(&mut batch).unwrap();
    assert_eq!(small.audit().out(), 0);

    let tiny = PagePool::builder().frames(2).frame_bytes(256).huge_pages(false).build().unwrap();
    let mut cache = tiny.cache("one").unwrap();
    let mut source = PcapSource::open(&path, Snapped::Refuse).unwrap();
    assert_eq!(source.receive(&mut cache, &mut batch, 8).unwrap(), 1);
    let error = source.receive(&mut cache, &mut batch, 8).unwrap_err().to_string();
    assert!(
        error.ends_with("byte 140: packet of 700 bytes does not fit a pool of 2 frames of 192"),
        "{error}"
    );
    cache.give(&mut batch).unwrap();
}

#[test]
fn a_source_sends_nothing_and_errors_name_the_file_once() {
    let scratch = Scratch::new("pcap");
    let path = snapped_capture(&scratch);
    let source = open(&format!("pcap:{}", path.display()), Direction::Receive).unwrap().device;
    assert!(source.as_tx().is_none());
    let Err(error) = source.into_tx() else { panic!("it sends") };
    assert_eq!(error.to_string(), format!("pcap:{}: it only receives", path.display()));

    for (spec, direction) in [
        (format!("pcap:{}", scratch.file("none.pcap").display()), Direction::Receive),
        (format!("pcap:{}", scratch.directory().display()), Direction::Send),
        (format!("pcap:{}", scratch.directory().display()), Direction::Receive),
        (format!("pcap:{}/none/x.pcap", scratch.directory().display()), Direction::Send),
    ] {
        let error = open(&spec, direction).unwrap_err().to_string();
        assert!(error.starts_with(&spec) && error.matches(&spec[5..]).count() == 1, "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
