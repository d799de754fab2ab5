//! Ends that cannot be forwarded between.

use wharf_core::device::AnyDevice;
use wharf_devices::null::Null;
use wharf_tools::forward::{Forward, ForwardError, ForwardSettings};

#[test]
fn queues_that_have_no_other_end_are_refused() {
    for (a, b, refused) in [(2, 3, true), (0, 1, true), (0, 0, true), (1, 3, false), (2, 2, false)] {
        let ends = |count: usize| (0..count).map(|_| AnyDevice::tx(Null::default()).into()).collect();
        let started = Forward::start(ends(a), ends(b), &ForwardSettings::default());
        match started {
            Err(ForwardError::Queues { a_queues, b_queues, .. }) => {
                assert!(refused && (a_queues, b_queues) == (a, b), "{a} and {b}");
            }
            // Both only send.
            Err(ForwardError::Nothing { .. }) => assert!(!refused, "{a} and {b}"),
            other => panic!("{other:?}"),
        }
    }
}
