//! Adapters that lie in one way each: the frame is dropped or comes back, by reason, and the next one passes.

use crate::model::{Model, Words};
use crate::traffic::{bytes_of, end, opened, options, packets};
use std::time::Duration;
use wharf_core::device::{Completions, Device, DeviceError, Notify, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_intel::e1000::E1000;
use wharf_intel::family::{Family, Registers};
use wharf_intel::igb::Igb;
use wharf_intel::{Port, PortOptions};
use wharf_mem::Batch;

/// Has the adapter write `seconds` into the first descriptors that are posted, and receives. Returns the frames
/// received, and the drops.
fn received<F: Family + Words>(seconds: &[u64]) -> (usize, u64) {
    let pool = PagePool::builder().frames(256).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let (model, mut port) = opened::<F>(&pool, &options(64, 1500));
    let mut to = Batch::new(256);
    port.receive(&mut cache, &mut to, 64).unwrap();
    let ring = F::rx_ring(0);
    for second in seconds {
        let place = model.get(ring.head);
        let [address, _] = model.descriptor(ring, place);
        model.write_back(ring, place, [address, *second]);
        model.set(ring.head, (place + 1) % model.size(ring));
    }
    let count = port.receive(&mut cache, &mut to, 64).unwrap();
    cache.give(&mut to).unwrap();
    // A good one behind it passes.
    assert!(model.arrive::<F>(&bytes_of(5), 2048));
    assert_eq!(port.receive(&mut cache, &mut to, 64).unwrap(), 1);
    let frame = to.pop().unwrap();
    assert_eq!(pool.region().bytes(&frame).unwrap(), bytes_of(5));
    cache.give_one(frame).unwrap();
    let mut malformed = 0;
    port.drops(&mut |reason, count| malformed += if reason == "malformed" { count } else { 0 });
    end(port, &model, cache, &pool);
    (count, malformed)
}

fn lies_to_a_receiver<F: Family + Words>() {
    let [whole, part] = [true, false].map(|is_last| move |len: u64| F::arrived(len, is_last));
    assert_eq!(received::<F>(&[whole(0xffff)]), (0, 1), "longer than its buffer");
    assert_eq!(received::<F>(&[whole(1537)]), (0, 1), "a byte longer than its buffer");
    assert_eq!(received::<F>(&[whole(0)]), (0, 1), "without a byte");
    assert_eq!(received::<F>(&[part(64), whole(0xffff)]), (0, 1), "whose end is too long");
    assert_eq!(received::<F>(&[part(0xffff), part(64), whole(64)]), (0, 1), "whose begin is too long");
    let parts: Vec<u64> = (0..60).map(|_| part(1536)).chain([whole(64)]).collect();
    assert_eq!(received::<F>(&parts), (1, 0), "of many parts");
}

#[test]
fn a_length_that_cannot_be_is_dropped_and_the_next_frame_arrives() {
    lies_to_a_receiver::<E1000>();
}

#[test]
fn igb_drops_a_length_that_cannot_be() {
    lies_to_a_receiver::<Igb>();
}

#[test]
fn a_frame_found_broken_is_dropped() {
    assert_eq!(received::<E1000>(&[E1000::arrived(60, true) | 1 << 40]), (0, 1));
    assert_eq!(received::<Igb>(&[Igb::arrived(60, true) | 1 << 31]), (0, 1));
}

fn sender() -> (PagePool, Cache, Model, Port<E1000, Model>) {
    let pool = PagePool::builder().frames(256).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let (model, mut port) = opened::<E1000>(&pool, &options(64, 1500));
    let mut batch = packets(&mut cache, pool.region(), 0..10);
    assert!(port.transmit(&mut batch, false).doorbell);
    (pool, cache, model, port)
}

#[test]
fn descriptors_that_were_never_given_complete_nothing() {
    let (pool, cache, model, mut port) = sender();
    let ring = E1000::tx_ring(0);
    let mut done = Completions::new(256);
    // All but the reported one, which is the tenth.
    (0..64).filter(|place| *place != 9).for_each(|place| model.write_back(ring, place, [u64::MAX; 2]));
    model.set(ring.head, 63);
    model.set(ring.tail, 0xffff_ffff);
    port.reap(256, true, &mut done).unwrap();
    assert_eq!((done.len(), port.outstanding()), (0, 10));
    end(port, &model, cache, &pool);
}

#[test]
fn one_report_completes_each_frame_once() {
    let (pool, mut cache, model, mut port) = sender();
    let mut done = Completions::new(256);
    for _ in 0..5 {
        model.write_back(E1000::tx_ring(0), 9, [u64::MAX; 2]);
        port.reap(256, true, &mut done).unwrap();
        assert_eq!((done.sent.len(), done.failed.len(), port.outstanding()), (10, 0, 0));
    }
    cache.give(&mut done.sent).unwrap();
    end(port, &model, cache, &pool);
}

/// Reaps until the device says that it has gone.
fn gone(port: &mut Port<E1000, Model>) -> String {
    let _ = port.link();
    match port.reap(0, false, &mut Completions::new(1)) {
        Err(error @ DeviceError::Gone { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_adapter_that_is_pulled_out_or_asked_back_is_gone_and_its_frames_come_back() {
    let (pool, cache, model, mut port) = sender();
    model.pull_out();
    assert!(gone(&mut port).contains("does not answer"));
    assert!(port.ended() && port.link().unwrap().is_err());
    end(port, &model, cache, &pool);
    let (pool, cache, model, mut port) = sender();
    model.ask_back();
    assert!(gone(&mut port).contains("is to be removed"));
    end(port, &model, cache, &pool);
}

#[test]
fn an_adapter_that_does_not_answer_is_not_opened() {
    let model = Model::new();
    model.pull_out();
    let opened = Port::<E1000, Model>::open("test", model, &options(64, 1500));
    assert!(opened.unwrap_err().to_string().contains("does not answer"));
}

const A_HANG: Duration = Duration::from_secs(2);

#[test]
fn frames_that_an_adapter_without_carrier_keeps_fail_as_link_down() {
    let (pool, mut cache, model, mut port) = sender();
    model.set_link(false);
    assert!(matches!(port.link(), Some(Err(DeviceError::Down { .. }))));
    model.pass(A_HANG);
    assert!(gone(&mut port).contains("no carrier for 2 s"));
    port.close().unwrap();
    let mut done = Completions::new(64);
    port.reap(64, true, &mut done).unwrap();
    assert_eq!(done.failed.len(), 10);
    done.failed.drain(..).for_each(|(frame, reason)| {
        assert_eq!(reason, "link-down");
        cache.give_one(frame).unwrap();
    });
    end(port, &model, cache, &pool);
}

#[test]
fn a_carrier_that_comes_back_late_and_a_report_that_was_not_taken_are_no_hang() {
    let (pool, cache, model, mut port) = sender();
    assert!(port.link().unwrap().is_ok());
    model.set_link(false);
    assert!(port.link().unwrap().is_err());
    model.pass(A_HANG);
    model.set_link(true);
    assert!(port.link().unwrap().is_ok(), "it has had the carrier for a moment");
    assert_eq!(model.send_all::<E1000>().len(), 10);
    model.pass(A_HANG);
    assert!(port.link().unwrap().is_ok(), "all is sent");
    end(port, &model, cache, &pool);
}

#[test]
fn a_queue_that_does_not_end_ends_the_others() {
    let pool = PagePool::builder().frames(256).build().unwrap();
    let model = Model::new();
    let options = PortOptions { queues: 2, ..options(64, 1500) };
    let mut ports = Port::<Igb, Model>::open("test", model.clone(), &options).unwrap();
    ports.iter_mut().for_each(|port| port.attach(pool.region().clone()).unwrap());
    assert!(ports[1].link().unwrap().is_ok());
    // `TXDCTL` of queue 0 stays enabled.
    model.stick(0xe028);
    ports[0].close().unwrap();
    let error = ports[1].link().unwrap().unwrap_err().to_string();
    assert!(error.contains("another of its queues did not end"), "{error}");
    drop(ports);
    assert!(!model.is_master());
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn drops_of_the_adapter_are_counted_by_reason_and_queue() {
    let model = Model::new();
    let options = PortOptions { queues: 2, ..options(64, 1500) };
    let mut ports = Port::<Igb, Model>::open("test", model.clone(), &options).unwrap();
    // MPC, CRCERRS, RXERRC, ROC; RQDPC of queue 1 has 12 bits.
    [(0x4010, 1), (0x4000, 2), (0x400c, 3), (0x40ac, 4), (0xc070, 0xf005)]
        .into_iter()
        .for_each(|(at, count)| model.set(at, count));
    let mut drops = ports.iter_mut().map(|port| {
        let mut drops = Vec::new();
        port.drops(&mut |reason, count| drops.push((reason, count)));
        drops
    });
    assert_eq!(drops.next().unwrap(), [("ring-full", 1), ("malformed", 5), ("too-long", 4)]);
    assert_eq!(drops.next().unwrap(), [("ring-full", 5)]);
}

#[test]
fn causes_that_were_collected_while_masked_are_taken_as_it_is_armed() {
    let (pool, cache, model, mut port) = sender();
    // `ICR`.
    let before = model.reads_of(0xc0);
    let _ = (port.arm(), port.arm());
    assert_eq!(model.reads_of(0xc0), before + 1, "once for each time that it was not armed");
    port.disarm();
    let _ = port.arm();
    assert_eq!(model.reads_of(0xc0), before + 2);
    end(port, &model, cache, &pool);
}

#[test]
fn an_adapter_that_only_sends_cannot_write_to_the_pool() {
    let pool = PagePool::builder().frames(64).build().unwrap();
    for receives in [false, true] {
        let (model, mut port) = opened::<E1000>(&pool, &PortOptions { receives, ..options(64, 1500) });
        assert_eq!(model.may_write_to_the_pool(), receives);
        port.close().unwrap();
    }
}

#[test]
fn an_adapter_that_sends_nothing_for_two_seconds_hangs() {
    let (pool, cache, model, mut port) = sender();
    assert!(port.link().unwrap().is_ok());
    model.pass(A_HANG - Duration::from_nanos(1));
    assert!(port.link().unwrap().is_ok());
    model.pass(Duration::from_nanos(1));
    assert!(gone(&mut port).contains("hangs"));
    end(port, &model, cache, &pool);
}
