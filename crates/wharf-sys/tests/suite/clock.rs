//! Clocks.

use wharf_sys::clock;

#[test]
fn clocks_advance_and_share_an_origin() {
    let coarse_ns = clock::coarse_ns();
    let exact_ns = clock::monotonic_ns();
    assert!(coarse_ns <= exact_ns && exact_ns - coarse_ns < 1_000_000_000);
    assert!(clock::ticks() <= clock::ticks());
}
