//! The system calls of a run, as a seccomp filter (`seccomp(2)`). All others fail with EPERM, so that a call that is missing here
//! is an error of that call, and not the end of the process.
//!
//! The lists have what the devices, the pollers, Rust's standard library and the C libraries call once devices are open, and what
//! opens a device again. `strace -f -z` over a run shows its calls, `strace -f -Z` those that were refused.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_mbind, libc::SYS_memfd_create, libc::SYS_membarrier,
    // Threads and their processors.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity,
    libc::SYS_sched_getattr, libc::SYS_sched_setattr, libc::SYS_getcpu, libc::SYS_getrusage,
    // Signals.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // Time.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday,
    // Files.
    libc::SYS_openat, libc::SYS_close, libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev,
    libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2,
    libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_fstatfs, libc::SYS_ftruncate,
    libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_readlinkat, libc::SYS_unlinkat, libc::SYS_getdents64, libc::SYS_fcntl,
    libc::SYS_dup, libc::SYS_dup3,
    // Events.
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2,
    libc::SYS_ppoll, libc::SYS_pselect6,
    // Sockets.
    libc::SYS_socketpair, libc::SYS_bind, libc::SYS_connect, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_shutdown,
    libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg,
    // The process.
    libc::SYS_getrandom, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_uname,
];

/// Older forms of calls above, which later processors do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_unlink, libc::SYS_dup2,
    libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_epoll_create, libc::SYS_eventfd, libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Families of sockets: the devices', and those that interfaces are queried by.
const FAMILIES: &[libc::c_int] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];
/// Options of `prctl(2)`: names and slack of threads.
const PRCTL: &[libc::c_int] =
    &[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_VMA];
/// Commands of `bpf(2)` that hand an interface's frames to an AF_XDP socket, and end that (linux/bpf.h):
/// BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_PROG_LOAD and BPF_LINK_CREATE; and to take a
/// map that a helper or a path gives: BPF_OBJ_GET and BPF_OBJ_GET_INFO_BY_FD.
const BPF: &[libc::c_int] = &[0, 2, 3, 5, 7, 15, 28];
/// Requests that type into a terminal: `TIOCSTI`, and `TIOCLINUX` by its selection (asm-generic/ioctls.h).
const TYPES: [u64; 2] = [0x5412, 0x541c];

/// The programs of the filter.
#[derive(Debug)]
pub(super) struct Filter {
    /// clone3(2) hides its flags from a filter. Without it (ENOSYS) the C library takes clone(2).
    without_clone3: BpfProgram,
    allowed: BpfProgram,
}

impl Filter {
    /// Compiles it for this processor.
    pub(super) fn new() -> Result<Self, BackendError> {
        let processor: TargetArch = std::env::consts::ARCH.try_into()?;
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let (refused, unknown) =
            (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Errno(libc::ENOSYS as u32));
        let without_clone3 =
            SeccompFilter::new(clone3, SeccompAction::Allow, unknown, processor)?.try_into()?;
        let allowed = SeccompFilter::new(rules()?, refused, SeccompAction::Allow, processor)?.try_into()?;
        Ok(Self { without_clone3, allowed })
    }

    /// Installs it in all threads, and in those that they start.
    pub(super) fn install(&self) -> Result<(), seccompiler::Error> {
        self.install_by(apply_filter_all_threads)
    }

    fn install_by(
        &self, apply: fn(&[seccompiler::sock_filter]) -> seccompiler::Result<()>,
    ) -> seccompiler::Result<()> {
        apply(&self.without_clone3)?;
        apply(&self.allowed)
    }
}

/// Returns the rules of each system call; one without rules is allowed.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let any = ALLOWED.iter().chain(OLDER).map(|&call| (call, Vec::new()));
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = any.collect();
    let process = [std::process::id() as libc::c_int];
    for (call, values) in [
        (libc::SYS_socket, FAMILIES),
        (libc::SYS_prctl, PRCTL),
        (libc::SYS_bpf, BPF),
        (libc::SYS_tgkill, &process),
    ] {
        let rule = |&value: &libc::c_int| only_if(&[(0, SeccompCmpOp::Eq, value as u64)]);
        rules.insert(call, values.iter().map(rule).collect::<Result<_, _>>()?);
    }
    let terminal = TYPES.map(|request| (1, SeccompCmpOp::Ne, request));
    // No memory becomes code.
    let data = [(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)];
    // A thread, and no process.
    let thread = libc::CLONE_THREAD as u64;
    let thread = [(0, SeccompCmpOp::MaskedEq(thread), thread)];
    for (call, conditions) in [
        (libc::SYS_ioctl, &terminal[..]),
        (libc::SYS_mmap, &data),
        (libc::SYS_mprotect, &data),
        (libc::SYS_clone, &thread),
    ] {
        rules.insert(call, vec![only_if(conditions)?]);
    }
    // The other filter refuses it.
    rules.insert(libc::SYS_clone3, Vec::new());
    Ok(rules)
}

/// Makes a rule that holds if all of the arguments, by number, do. All are words of 32 bits to the kernel.
fn only_if(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, compare, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, compare.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests;
