//! A library that lies: requests never posted, posted twice, lengths beyond buffers, more completions than there was room for.

use crate::rig::{RING_FRAMES, Rig, route_from};
use proptest::prelude::*;
use wharf_core::device::{Device, DeviceError, Notify, TxDevice, close_receiver};
use wharf_verbs::fake::Lie;

const TRUTH: Lie = Lie { id: 0, status: 0, len_bytes: 100, source_queue_pair: 5, has_route_header: true };

#[test]
fn completion_of_a_request_that_is_not_posted_is_an_error_and_the_others_come_back() {
    let mut rig = Rig::with(|_| {}, 100);
    rig.offer_many(4);
    rig.device.transmit(&mut rig.batch, false);
    rig.offer_many(1);
    rig.device.transmit(&mut rig.batch, true);
    // 104 is staged, and not posted.
    for id in [99, 104, 105, 1 << 32 | 101, u64::MAX, 0] {
        rig.fake.inject(false, Lie { id, ..TRUTH });
        let (sent, _, result) = rig.reap();
        assert!(matches!(result, Err(DeviceError::NotHeld { .. })) && sent.is_empty(), "{id}: {result:?}");
    }
    rig.fake.inject(false, Lie { id: 101, ..TRUTH });
    rig.fake.inject(false, Lie { id: 101, ..TRUTH });
    let (sent, _, result) = rig.reap();
    assert_eq!(sent, [0, 1]);
    assert!(result.is_err());
    rig.device.flush();
    rig.fake.inject(false, Lie { id: 104, ..TRUTH });
    assert_eq!(rig.reap().0, [2, 3, 0]);
    rig.close();
}

#[test]
fn queue_pair_in_error_is_gone_and_frames_fail_by_reason() {
    let mut rig = Rig::with(|_| {}, 0);
    rig.offer_many(4);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.inject(false, Lie { id: 1, status: 2, ..TRUTH });
    rig.fake.inject(false, Lie { id: 2, status: 5, ..TRUTH });
    rig.fake.inject(false, Lie { id: 3, status: 5, ..TRUTH });
    let (sent, failed, result) = rig.reap();
    assert_eq!((sent, failed), (vec![0], vec!["send-error", "flushed", "flushed"]));
    let error = result.unwrap_err();
    assert!(
        matches!(error, DeviceError::Gone { .. }) && error.to_string().contains("LOC_QP_OP_ERR"),
        "{error}"
    );
    rig.offer_many(1);
    rig.device.transmit(&mut rig.batch, false);
    assert_eq!(rig.reap().1, ["gone"]);
    rig.close();
}

#[test]
fn partial_post_gives_the_device_up_and_fails_the_rest() {
    let mut rig = Rig::new();
    rig.offer_many(5);
    rig.fake.refuse(2, libc::ENOMEM);
    rig.device.transmit(&mut rig.batch, false);
    let (sent, failed, result) = rig.reap();
    assert_eq!((sent.len(), failed, rig.device.outstanding()), (0, vec!["refused"; 3], 2));
    assert!(matches!(result, Err(DeviceError::Gone { .. })));
    rig.close();
}

#[test]
fn post_whose_refused_request_is_not_named_keeps_its_frames_until_the_queue_pair_is_destroyed() {
    let mut rig = Rig::new();
    rig.offer_many(5);
    rig.fake.hide_refused();
    rig.fake.refuse(2, libc::ENOMEM);
    rig.device.transmit(&mut rig.batch, false);
    let (sent, failed, result) = rig.reap();
    assert_eq!((sent.len(), failed.len(), rig.device.outstanding()), (0, 0, 5));
    assert!(matches!(result, Err(DeviceError::Gone { .. })));
    rig.close();
}

#[test]
fn frames_of_a_queue_pair_that_cannot_be_destroyed_stay_out() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    rig.offer_many(3);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.keep_queue_pair();
    let Rig { mut device, mut cache, pool, mut done, .. } = rig;
    let closed = close_receiver(&mut device, &mut cache);
    assert!(closed.unwrap_err().to_string().contains("cannot destroy its queue pair"));
    device.reap(256, true, &mut done).unwrap();
    assert_eq!((done.len(), device.outstanding()), (0, 0));
    drop(cache);
    assert_eq!(pool.audit().out(), 3 + RING_FRAMES as usize);
}

#[test]
fn frames_that_are_there_come_before_the_error() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &[0x08, 0, 0, 0], 5));
    rig.fake.inject(true, Lie { id: 99, ..TRUTH });
    let (frames, result) = rig.receive();
    assert!(frames.len() == 1 && result.is_ok(), "{result:?}");
    assert!(!rig.device.arm());
    let (frames, result) = rig.receive();
    assert!(frames.is_empty() && matches!(result, Err(DeviceError::NotHeld { .. })), "{result:?}");
    rig.close();
}

#[test]
fn reception_that_cannot_be_is_dropped_or_an_error() {
    let mut rig = Rig::new();
    rig.receive().1.unwrap();
    assert!(rig.fake.receive(&route_from([10, 9, 0, 7]), &[0x08, 0, 0, 0], 5));
    assert_eq!(rig.receive().0[0].len(), 14);
    for (at, (len_bytes, has_route_header)) in
        [(0, true), (43, true), (u32::MAX, true), (3000, true), (100, false)].into_iter().enumerate()
    {
        rig.fake.inject(true, Lie { id: at as u64 + 1, len_bytes, has_route_header, ..TRUTH });
    }
    let (frames, result) = rig.receive();
    result.unwrap();
    assert_eq!((frames.len(), rig.drops()), (0, vec![("truncated", 2), ("malformed", 3)]));
    for id in [1, 17 + 16, 1 << 32 | 9, u64::MAX] {
        rig.fake.inject(true, Lie { id, ..TRUTH });
        let (frames, result) = rig.receive();
        assert!(frames.is_empty() && matches!(result, Err(DeviceError::NotHeld { .. })), "{id}: {result:?}");
    }
    rig.close();
}

#[test]
fn more_completions_than_there_was_room_for_are_not_read() {
    let mut rig = Rig::new();
    rig.fake.poll_beyond();
    rig.offer_many(4);
    rig.device.transmit(&mut rig.batch, false);
    rig.fake.complete(4);
    let _ = rig.reap();
    let _ = rig.receive();
    rig.close();
}

/// A step of a run in which the library lies.
#[derive(Debug, Clone)]
enum Step {
    Send(usize, bool),
    Complete(usize),
    Receive,
    Arrive(usize),
    Lie(bool, i32, i32, u32, bool),
    Arm,
    Refuse(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..12usize, any::<bool>()).prop_map(|(count, more)| Step::Send(count, more)),
        4 => (1..12usize).prop_map(Step::Complete),
        4 => Just(Step::Receive),
        4 => (4..2000usize).prop_map(Step::Arrive),
        3 => (any::<bool>(), -20..20i32, -1..23i32, any::<u32>(), any::<bool>())
            .prop_map(|(is_reception, id, status, len, route)| Step::Lie(is_reception, id, status, len, route)),
        2 => Just(Step::Arm),
        1 => (0..8usize).prop_map(Step::Refuse),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_lie_loses_a_frame_or_panics(steps in steps(), first in prop_oneof![Just(0u32), Just(u32::MAX - 9)]) {
        let mut rig = Rig::with(|_| {}, first);
        let mut near = first;
        for step in steps {
            match step {
                Step::Send(count, more) => {
                    rig.offer_many(count.min(RING_FRAMES as usize - rig.batch.len().min(RING_FRAMES as usize)));
                    let before = rig.batch.len();
                    rig.device.transmit(&mut rig.batch, more);
                    near = near.wrapping_add((before - rig.batch.len()) as u32);
                }
                Step::Complete(count) => {
                    rig.fake.complete(count);
                    rig.reap().2.ok();
                }
                Step::Receive => drop(rig.receive()),
                Step::Arrive(len) => {
                    rig.fake.receive(&route_from([10, 9, 0, 7]), &vec![8; len], 5);
                }
                Step::Lie(is_reception, id, status, len_bytes, has_route_header) => {
                    let id = u64::from(near.wrapping_add_signed(id));
                    rig.fake.inject(is_reception, Lie { id, status, len_bytes, has_route_header, ..TRUTH });
                    rig.reap().2.ok();
                    rig.receive().1.ok();
                }
                Step::Arm => drop(rig.device.arm()),
                Step::Refuse(taken) => rig.fake.refuse(taken, libc::ENOMEM),
            }
            let mut held = 0;
            rig.device.visit(&mut |_| held += 1);
            prop_assert!(rig.device.outstanding() <= RING_FRAMES as usize && held <= 2 * RING_FRAMES as usize);
        }
        rig.close();
    }
}
