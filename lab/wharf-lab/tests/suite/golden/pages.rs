//! `pages` in the model.

use super::{RowKind, assert_golden, assert_residuals_are_said, row, whole};

/// All rows of `pages` in the model, a shorter time on a smaller machine.
#[test]
fn short_pages_equals_golden() {
    let set = ["cpus=8", "channels=2", "streams=24", "settle_ns=1000000", "measure_ns=500000"];
    assert_golden("pages-short.txt", &whole("pages", &set, 7));
}

/// With the parameters of the file: the lab's claims on the allocator's lock, and on policies without it.
#[test]
#[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
fn pages_equals_golden_and_is_near_the_published() {
    let report = whole("pages", &[], 1);
    assert_golden("pages.txt", &report);
    assert_residuals_are_said(&report);
    let [spinning, in_poll] =
        ["spinning", "spinning_in_poll"].map(|metric| row(&report, "allocator", metric));
    assert!(spinning.kind == RowKind::Fitted && (spinning.value - 55.0).abs() < 0.2, "{spinning:?}");
    assert!(in_poll.kind == RowKind::Predicted && (in_poll.value - 77.0).abs() < 7.7, "{in_poll:?}");
    assert!(
        row(&report, "origin", "mpps_of_allocator").value >= 1.3
            && row(&report, "origin", "spinning").value < 1.0
    );
    let gain = row(&report, "send/origin", "gain_over_allocator");
    assert!(gain.kind == RowKind::Fitted && (gain.value - 50.0).abs() < 1.0, "{gain:?}");
}
