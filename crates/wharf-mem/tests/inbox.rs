//! Messages for the owner of a queue, pushed by many threads.
#![cfg(not(loom))]

use wharf_mem::inbox::Inbox;

#[test]
fn messages_of_each_thread_come_in_order_and_once() {
    let inbox = Inbox::default();
    let mut seen: Vec<(usize, u32)> = Vec::new();
    std::thread::scope(|scope| {
        let inbox = &inbox;
        let pushing: Vec<_> = (0..3)
            .map(|thread| scope.spawn(move || (0..1000).for_each(|number| inbox.push((thread, number)))))
            .collect();
        while !pushing.iter().all(|thread| thread.is_finished()) || !inbox.is_empty() {
            seen.extend(inbox.take());
        }
    });
    for thread in 0..3 {
        let of_one = seen.iter().filter(|message| message.0 == thread).map(|message| message.1);
        assert!(of_one.eq(0..1000), "thread {thread}");
    }
}

#[test]
fn messages_left_behind_are_dropped() {
    let message = std::sync::Arc::new(());
    let inbox = Inbox::default();
    (0..3).for_each(|_| inbox.push(message.clone()));
    let mut taken = inbox.take();
    assert!(taken.next().is_some());
    drop(taken);
    inbox.push(message.clone());
    drop(inbox);
    assert_eq!(std::sync::Arc::strong_count(&message), 1);
}
