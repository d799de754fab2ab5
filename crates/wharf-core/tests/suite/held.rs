//! A sender held by its small-queue limit: every end of its frames ends the wait and evens the account.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use wharf_core::host::Park;
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{TestPark, ThreadState};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

const LIMIT_BYTES: u32 = 4096;
const WITHIN: usize = 40;

fn queue() -> (TxQueue, Arc<Control>) {
    let (gate, control) = Gate::new(1024);
    (builder(&pool(2048), gate).small_queues(Some(LIMIT_BYTES)).build().unwrap(), control)
}

fn open(control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
}

/// Sends up to the limit. Returns a watch for more.
fn fill_up(sender: &mut Sender) {
    let mut burst = numbered(sender, 0, 64, 100);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, WITHIN);
}

/// Asserts that the account holds no byte.
fn assert_even(queue: &TxQueue, sender: &mut Sender, control: &Control) {
    control.allowed.store(0, SeqCst);
    fill_up(sender);
    open(control);
    assert!(queue.drain(Duration::MAX));
}

/// Sends in a thread that is held, and runs `end` meanwhile.
fn sent_beside(queue: &TxQueue, end: impl FnOnce()) -> Result<(), SendError> {
    let mut sender = queue.sender("held").unwrap();
    let counters = sender.counters().clone();
    std::thread::scope(|scope| {
        let (tells, told) = std::sync::mpsc::channel();
        let sends = scope.spawn(move || {
            tells.send(ThreadState::current()).unwrap();
            (0..20).try_for_each(|n| {
                let mut burst = numbered(&mut sender, n * 10, 10, 100);
                sender.send(&mut burst, Wait::Forever).map(drop)
            })
        });
        while counters.waits.get() == 0 {
            std::thread::yield_now();
        }
        told.recv().unwrap().await_asleep();
        end();
        let began = Instant::now();
        while !sends.is_finished() {
            assert!(began.elapsed() < Duration::from_secs(60), "held for ever");
            std::thread::yield_now();
        }
        sends.join().unwrap()
    })
}

#[test]
fn stopped_poller_leaves_held_sender_to_run_the_queue() {
    let (queue, control) = queue();
    let (poller, stop) = queue.poller();
    let runs = std::thread::spawn(move || poller.run());
    let sent = sent_beside(&queue, || {
        stop.stop();
        runs.join().unwrap();
        open(&control);
    });
    sent.unwrap();
    assert!(queue.drain(Duration::MAX));
    assert_conserved(&queue);
}

#[test]
fn dedicated_owner_that_sleeps_or_leaves_still_wakes_held_sender() {
    let (queue, control) = queue();
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let mut owner = queue.dedicate().unwrap();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(200) {
                owner.poll_or_sleep(u64::MAX);
            }
        });
        sent_beside(&queue, || owner.join().map(|()| open(&control)).unwrap()).unwrap();
    });
    assert!(queue.drain(Duration::MAX));
    assert_conserved(&queue);
}

#[test]
fn shutdown_ends_the_wait_of_held_sender() {
    let (queue, control) = queue();
    let sent = sent_beside(&queue, || {
        queue.shutdown(Duration::ZERO);
        open(&control);
    });
    assert!(matches!(sent, Err(SendError::Closed)), "{sent:?}");
}

#[test]
fn failed_frames_are_released_from_the_account() {
    let (queue, control) = queue();
    let mut sender = queue.sender("fails").unwrap();
    fill_up(&mut sender);
    control.failures.store(WITHIN, SeqCst);
    open(&control);
    assert!(queue.drain(Duration::MAX));
    assert_eq!(queue.counters().failed.get(), WITHIN as u64);
    assert_even(&queue, &mut sender, &control);
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn super_packets_are_charged_and_released_with_all_bytes() {
    let (queue, control) = queue();
    let mut sender = queue.sender("chains").unwrap();
    for round in 0..50 {
        open(&control);
        if round % 2 == 0 {
            control.allowed.store(0, SeqCst);
        }
        let mut burst = sender.burst(1);
        let mut packet = sender.packet(1000, Wait::Never).unwrap();
        (0..2).for_each(|_| packet.append(sender.packet(500, Wait::Never).unwrap()).unwrap());
        burst.push(packet).unwrap();
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1, "round {round}");
        open(&control);
        assert!(queue.drain(Duration::MAX));
    }
    assert_even(&queue, &mut sender, &control);
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn sender_in_a_reused_place_starts_with_an_even_account() {
    let (queue, control) = queue();
    let mut first = queue.sender("dies").unwrap();
    fill_up(&mut first);
    let mut watch = first.watch(1, 1, TestPark.waker());
    assert!(first.look(&mut watch).is_none());
    drop((watch, first));
    queue.poll();
    let mut second = queue.sender("comes after").unwrap();
    fill_up(&mut second);
    open(&control);
    assert!(queue.drain(Duration::MAX));
    assert_even(&queue, &mut second, &control);
    drop(second);
    assert_conserved(&queue);
}

/// A future dropped before its turn or at it leaves the account even: all bytes in flight are the sender's own.
#[test]
fn future_dropped_while_held_leaves_the_account_even() {
    let (queue, control) = queue();
    let mut sender = queue.sender("gives up").unwrap();
    let mut burst = numbered(&mut sender, 0, 64, 100);
    let mut context = Context::from_waker(Waker::noop());
    for leave in [0, WITHIN] {
        {
            let mut sending = pin!(sender.send_async(&mut burst));
            assert!(sending.as_mut().poll(&mut context).is_pending());
            control.allowed.store(leave, SeqCst);
            queue.poll();
        }
        assert_eq!(burst.len(), 64 - WITHIN);
    }
    let mut sending = Box::pin(sender.send_async(&mut burst));
    assert_eq!(sending.as_mut().poll(&mut context).map(|sent| sent.unwrap().left), Poll::Ready(0));
    drop(sending);
    open(&control);
    assert!(queue.drain(Duration::MAX));
    assert_even(&queue, &mut sender, &control);
    drop((burst, sender));
    assert_conserved(&queue);
}
