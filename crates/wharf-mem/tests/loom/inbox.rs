//! The inbox: two threads push while a third takes. `inbox.rs`.

use crate::{OF_THREE_THREADS, check};
use loom::sync::Arc;
use loom::thread;
use wharf_mem::inbox::Inbox;

#[test]
fn no_message_is_lost_doubled_or_overtaken() {
    check(OF_THREE_THREADS, || {
        let inbox = Arc::new(Inbox::default());
        let pushing: Vec<_> = (0..2)
            .map(|sender| {
                let inbox = inbox.clone();
                thread::spawn(move || (0..2).for_each(|number| inbox.push((sender, number))))
            })
            .collect();
        let mut seen: Vec<_> = inbox.take().collect();
        seen.extend(inbox.take());
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        seen.extend(inbox.take());
        for sender in 0..2 {
            let of_one: Vec<_> =
                seen.iter().filter(|message| message.0 == sender).map(|message| message.1).collect();
            assert_eq!(of_one, [0, 1], "sender {sender}");
        }
        assert_eq!(seen.len(), 4);
    });
}
