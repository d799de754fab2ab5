//! What a thread asks of the kernel for itself: processors, timer slack, its processor time.

use wharf_sys::{affinity, timer, usage};

#[test]
fn an_allowed_processor_is_pinned_and_others_are_refused() {
    let first = affinity::allowed()[0];
    std::thread::spawn(move || {
        affinity::pin(first).unwrap();
        assert_eq!(affinity::allowed(), [first]);
        assert!(affinity::pin(1 << 20).is_err());
    })
    .join()
    .unwrap();
}

#[test]
fn precise_sleeps_set_the_slack() {
    timer::precise_sleeps();
    // SAFETY: takes no further argument.
    assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
}

#[test]
fn a_thread_that_computes_uses_processor_time() {
    let total = |(user, kernel): (f64, f64)| user + kernel;
    let (process, thread) = (total(usage::cpu_seconds()), total(usage::thread_cpu_seconds()));
    while total(usage::thread_cpu_seconds()) < thread + 0.01 {
        std::hint::spin_loop();
    }
    // The kernel counts a running thread's time at ticks and switches: a tick may be missing.
    assert!(total(usage::cpu_seconds()) >= process + 0.005);
}
