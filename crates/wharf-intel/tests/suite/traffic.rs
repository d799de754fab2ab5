//! The driver on an adapter that keeps the rules: every byte, in order, one doorbell a batch, and nothing left at the
//! end.

use crate::model::{Model, Words};
use wharf_core::device::{Completions, Device, Notify, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::{Cache, PagePool};
use wharf_intel::e1000::E1000;
use wharf_intel::family::Family;
use wharf_intel::igb::Igb;
use wharf_intel::{Port, PortOptions};
use wharf_mem::{Batch, Meta, Region};
use wharf_testkit::content::{len_of, write};

pub fn options(ring_entries: u32, mtu_bytes: u32) -> PortOptions {
    PortOptions { sends: true, receives: true, ring_entries, mtu_bytes, promiscuous: true, queues: 1 }
}

pub fn opened<F: Family>(pool: &PagePool, options: &PortOptions) -> (Model, Port<F, Model>) {
    let model = Model::new();
    let mut port = Port::<F, Model>::open("test", model.clone(), options).unwrap().pop().unwrap();
    port.attach(pool.region().clone()).unwrap();
    assert!(model.is_master());
    (model, port)
}

/// Takes packets `numbers` of the pool, with their bytes.
pub fn packets(cache: &mut Cache, region: &Region, numbers: std::ops::Range<u32>) -> Batch {
    let (mut batch, mut one) = (Batch::new(256), Batch::new(1));
    for number in numbers {
        assert_eq!(cache.take(&mut one, 1, len_of(number) as u32).unwrap(), 1);
        let mut frame = one.pop().unwrap();
        write(region.bytes_mut(&mut frame).unwrap(), 1, number);
        batch.push(frame).unwrap();
    }
    batch
}

pub fn bytes_of(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; len_of(number)];
    write(&mut bytes, 1, number);
    bytes
}

pub fn end<F: Family>(mut port: Port<F, Model>, model: &Model, mut cache: Cache, pool: &PagePool) {
    close_receiver(&mut port, &mut cache).unwrap();
    assert!(!model.is_master(), "an adapter that is closed does no DMA");
    let mut done = Completions::new(256);
    while port.outstanding() > 0 {
        // An error of the link may be due.
        let _ = port.reap(256, true, &mut done);
        cache.give(&mut done.sent).unwrap();
        done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    }
    drop((port, cache));
    assert_eq!(pool.audit().out(), 0);
}

fn sends<F: Family + Words>() {
    let pool = PagePool::builder().frames(1024).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    let mut done = Completions::new(256);
    // Each ring wraps many times.
    for round in 0..200_u32 {
        let count = 1 + round % 60;
        let doorbells = model.writes_to(F::tx_ring(0).tail);
        let mut batch = packets(&mut cache, &region, round * 64..round * 64 + count);
        assert!(port.transmit(&mut batch, false).doorbell && batch.is_empty());
        assert_eq!(model.writes_to(F::tx_ring(0).tail), doorbells + 1, "one tail write a batch");
        port.reap(256, false, &mut done).unwrap();
        assert!(done.is_empty(), "nothing has left");
        let sent = model.send_all::<F>();
        assert!(sent.into_iter().eq((round * 64..round * 64 + count).map(bytes_of)), "round {round}");
        port.reap(256, false, &mut done).unwrap();
        assert_eq!((done.sent.len(), done.failed.len(), port.outstanding()), (count as usize, 0, 0));
        cache.give(&mut done.sent).unwrap();
    }
    end(port, &model, cache, &pool);
}

fn receives<F: Family + Words>(pool: &PagePool, mtu_bytes: u32, buffer: usize) {
    let mut cache = pool.cache("test").unwrap();
    let (model, mut port) = opened::<F>(pool, &options(64, mtu_bytes));
    let mut to = Batch::new(256);
    assert_eq!(port.receive(&mut cache, &mut to, 64).unwrap(), 0);
    for number in 0..2000 {
        assert!(model.arrive::<F>(&bytes_of(number), buffer), "no buffers");
        assert_eq!(port.receive(&mut cache, &mut to, 64).unwrap(), 1, "packet {number}");
        let frame = to.pop().unwrap();
        let got: Vec<u8> = pool.region().chunks(&frame).unwrap().flatten().copied().collect();
        assert_eq!(got, bytes_of(number), "packet {number}");
        cache.give_one(frame).unwrap();
    }
    end(port, &model, cache, pool);
}

#[test]
fn frames_leave_with_every_byte_and_one_doorbell_a_batch() {
    sends::<E1000>();
    sends::<Igb>();
}

#[test]
fn frames_arrive_with_every_byte_in_one_buffer() {
    let pool = PagePool::builder().frames(256).build().unwrap();
    receives::<E1000>(&pool, 1500, 2048);
    receives::<Igb>(&pool, 1500, 2048);
}

#[test]
fn long_frames_arrive_in_several_buffers() {
    let pool = PagePool::builder().frames(256).build().unwrap();
    receives::<E1000>(&pool, 9000, 1024);
    receives::<Igb>(&pool, 9000, 1024);
}

#[test]
fn a_full_ring_stops_and_goes_on_when_frames_have_left() {
    let pool = PagePool::builder().frames(1024).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<E1000>(&pool, &options(64, 1500));
    let mut batch = packets(&mut cache, &region, 0..100);
    let taken = port.transmit(&mut batch, true);
    assert!(taken.stopped && taken.doorbell && batch.len() == 37, "{taken:?}, {} left", batch.len());
    assert_eq!(model.send_all::<E1000>().len(), 63);
    let mut done = Completions::new(256);
    port.reap(256, false, &mut done).unwrap();
    assert_eq!(done.sent.len(), 63);
    assert!(!port.transmit(&mut batch, false).stopped && batch.is_empty());
    assert_eq!(model.send_all::<E1000>().len(), 37);
    port.reap(256, false, &mut done).unwrap();
    assert_eq!(done.sent.len(), 100);
    cache.give(&mut done.sent).unwrap();
    end(port, &model, cache, &pool);
}

#[test]
fn frames_that_cannot_be_sent_fail_with_a_reason() {
    let pool = PagePool::builder().frames(64).frame_bytes(4096).build().unwrap();
    let other = PagePool::builder().frames(4).build().unwrap();
    let (mut cache, mut foreign) = (pool.cache("test").unwrap(), other.cache("test").unwrap());
    let (model, mut port) = opened::<Igb>(&pool, &options(64, 1500));
    let mut batch = Batch::new(8);
    cache.take(&mut batch, 1, 14).unwrap();
    cache.take(&mut batch, 1, 1515).unwrap();
    foreign.take(&mut batch, 1, 60).unwrap();
    cache.take(&mut batch, 1, 1514).unwrap();
    assert!(port.transmit(&mut batch, false).doorbell);
    model.set_link(false);
    assert!(port.link().unwrap().is_err());
    cache.take(&mut batch, 1, 60).unwrap();
    assert!(!port.transmit(&mut batch, false).doorbell);
    assert_eq!(model.send_all::<Igb>().len(), 1);
    let mut done = Completions::new(8);
    assert!(port.reap(8, false, &mut done).is_err(), "the carrier's loss is told once");
    port.reap(8, false, &mut done).unwrap();
    let reasons: Vec<&str> = done.failed.iter().map(|(_, reason)| *reason).collect();
    assert_eq!((done.sent.len(), reasons), (1, vec!["too-short", "too-long", "foreign-pool", "link-down"]));
    let theirs = done.failed.iter().position(|(_, reason)| *reason == "foreign-pool").unwrap();
    foreign.give_one(done.failed.remove(theirs).0).unwrap();
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    drop(foreign);
    assert_eq!(other.audit().out(), 0);
    end(port, &model, cache, &pool);
}

/// Sends two frames whose checksum is left to the adapter, and one without. Returns the context descriptors.
fn contexts<F: Family + Words>() -> Vec<[u64; 2]> {
    let pool = PagePool::builder().frames(256).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    assert!(port.info().checksum && !port.info().segmentation);
    let mut batch = Batch::new(8);
    for number in 0..3 {
        let mut one = Batch::new(1);
        cache.take(&mut one, 1, 60).unwrap();
        let mut frame = one.pop().unwrap();
        let bytes = region.bytes_mut(&mut frame).unwrap();
        bytes.fill(0);
        (bytes[12], bytes[14], bytes[23]) = (8, 0x45, 17);
        if number != 1 {
            let meta =
                Meta { needs_checksum: true, checksum_start: 34, checksum_offset: 6, ..Meta::default() };
            region.set_meta(&mut frame, &meta).unwrap();
        }
        batch.push(frame).unwrap();
    }
    assert!(port.transmit(&mut batch, false).doorbell && batch.is_empty());
    assert_eq!(model.send_all::<F>().len(), 3);
    let mut done = Completions::new(8);
    port.reap(8, false, &mut done).unwrap();
    assert_eq!((done.sent.len(), done.failed.len()), (3, 0));
    cache.give(&mut done.sent).unwrap();
    let contexts = model.contexts();
    end(port, &model, cache, &pool);
    contexts
}

#[test]
fn a_checksum_that_is_left_to_the_adapter_is_described_once() {
    // Sum from byte 34 on, to byte 40.
    assert_eq!(contexts::<E1000>(), [[0x2822_0000_0000, 0x2000_0000]]);
    // A network header of 20 bytes behind one of 14.
    assert_eq!(contexts::<Igb>(), [[14 << 9 | 20, 0x2020_0000]]);
}

/// Few packets: their interrupts do not wait. `register` has the time, `shift` bits up, in steps of `step_ns`.
fn interrupts_of_few_packets_do_not_wait<F: Family + Words>(register: u32, shift: u32, step_ns: u32) {
    let pool = PagePool::builder().frames(1024).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    let time_ns = || (model.get(register) << 1 >> 1 >> shift) * step_ns;
    assert!((49_000..=50_000).contains(&time_ns()), "{}", time_ns());
    let mut done = Completions::new(256);
    for number in 0..8 {
        port.transmit(&mut packets(&mut cache, &region, number..number + 1), false);
        assert_eq!(model.send_all::<F>().len(), 1);
        port.reap(256, false, &mut done).unwrap();
        cache.give(&mut done.sent).unwrap();
        model.pass(std::time::Duration::from_millis(2));
        model.interrupt();
        port.arm();
    }
    assert!((13_000..=14_000).contains(&time_ns()), "{}", time_ns());
    assert_eq!(port.signals().unwrap().interrupts, 8);
    end(port, &model, cache, &pool);
}

#[test]
fn interrupts_are_throttled_by_what_they_serve() {
    interrupts_of_few_packets_do_not_wait::<E1000>(0xc4, 0, 256);
    interrupts_of_few_packets_do_not_wait::<Igb>(0x1680, 2, 1000);
}

/// Two super-packets of TCP over IPv4 with the same headers: each has a description of its own, and the frame goes whole, with the
/// lengths and sums that the adapter wants.
fn super_packets_are_left_to_the_adapter<F: Family + Words>(contexts: [u64; 2], parts: &[usize]) {
    let pool = PagePool::builder().frames(256).frame_bytes(16384).build().unwrap();
    let (mut cache, region) = (pool.cache("test").unwrap(), pool.region().clone());
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    assert!(port.info().tcp_segmentation && !port.info().segmentation);
    // Ethernet, IPv4, TCP with 32 bytes, and 9000 bytes of payload.
    let (payload, mut batch, mut one) = (9000, Batch::new(8), Batch::new(1));
    let mut headers = vec![0; 66];
    headers[12..15].copy_from_slice(&[8, 0, 0x45]);
    headers[16..18].copy_from_slice(&(9000_u16 + 52).to_be_bytes());
    headers[23] = 6;
    headers[24..26].copy_from_slice(&[0xab, 0xcd]);
    headers[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    headers[46] = 8 << 4;
    // The sum of the pseudo header: addresses, protocol, length.
    let pseudo = |len: u32| {
        let sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 6 + len;
        ((sum & 0xffff) + (sum >> 16)) as u16
    };
    headers[50..52].copy_from_slice(&pseudo(9000 + 32).to_be_bytes());
    for segment_bytes in [1448, 1448, 1449] {
        assert_eq!(cache.take(&mut one, 1, 66 + payload).unwrap(), 1);
        let mut frame = one.pop().unwrap();
        region.bytes_mut(&mut frame).unwrap()[..66].copy_from_slice(&headers);
        let meta = Meta {
            gso_bytes: segment_bytes,
            gso_kind: 1,
            needs_checksum: true,
            checksum_start: 34,
            checksum_offset: 16,
            ..Meta::default()
        };
        region.set_meta(&mut frame, &meta).unwrap();
        batch.push(frame).unwrap();
    }
    // Behind them two frames that want no work.
    assert_eq!(cache.take(&mut batch, 2, 100).unwrap(), 2);
    port.transmit(&mut batch, false);
    let mut sent = model.send_all::<F>();
    assert!(sent.split_off(2).iter().all(|plain| plain.len() == 100));
    assert_eq!((model.contexts(), model.parts()), (vec![contexts, contexts], parts.to_vec()));
    headers[16..18].fill(0);
    headers[24..26].fill(0);
    headers[50..52].copy_from_slice(&pseudo(0).to_be_bytes());
    assert!(sent.len() == 2 && sent.iter().all(|frame| frame.len() == 9066 && frame[..66] == headers));
    let mut done = Completions::new(256);
    port.reap(256, false, &mut done).unwrap();
    let reasons: Vec<&str> = done.failed.iter().map(|(_, reason)| *reason).collect();
    assert_eq!((done.sent.len(), reasons), (4, vec!["too-long"]), "a segment of 1515 bytes is too long");
    cache.give(&mut done.sent).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    end(port, &model, cache, &pool);
}

#[test]
fn super_packets_of_tcp_are_left_to_the_adapter() {
    // The e1000 has the last bytes of a super-packet, and of the frame behind it, apart.
    let of_e1000 = [0x3222_0021_180e, 1448 << 48 | 66 << 40 | 0x2700_0000 | 9000];
    super_packets_are_left_to_the_adapter::<E1000>(of_e1000, &[9062, 4, 9062, 4, 96, 4, 100]);
    let of_igb = [14 << 9 | 20, 1448 << 48 | 32 << 40 | 0x2020_0c00];
    super_packets_are_left_to_the_adapter::<Igb>(of_igb, &[9066, 9066, 100, 100]);
}
