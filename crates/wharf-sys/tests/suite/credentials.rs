//! Privileges of a thread. What changes all threads is tried on the `wharf` command (tests/privileges.sh).

use wharf_sys::credentials;

/// Returns a field of the calling thread's status: proc_pid_status(5).
fn status(field: &str) -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim().into()
}

#[test]
fn gains_are_forbidden_to_the_thread_and_to_those_that_it_starts() {
    let none = "0000000000000000";
    std::thread::spawn(move || {
        let (before, may_drop) = (status("CapEff:"), rustix::process::geteuid().is_root());
        credentials::forbid_gains().unwrap();
        let check = move || {
            assert_eq!((status("NoNewPrivs:"), status("CapInh:")), ("1".into(), none.into()));
            assert_eq!(status("CapAmb:"), none);
            // A root without CAP_SETPCAP keeps it.
            if may_drop && u64::from_str_radix(&before, 16).unwrap() >> 8 & 1 == 1 {
                assert_eq!(status("CapBnd:"), none);
            }
            assert_eq!(status("CapEff:"), before, "what the thread has stays");
        };
        check.clone()();
        std::thread::spawn(check).join().unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(status("NoNewPrivs:"), "0", "another thread's is its own");
}

#[test]
fn number_of_no_user_is_refused() {
    // To setresuid(2) it would mean the user that the process has.
    for (uid, gid) in [(u32::MAX, 1), (1, u32::MAX)] {
        let error = credentials::become_user(uid, gid).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
