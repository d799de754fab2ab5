use super::*;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use wharf_sys::xdp::SocketMap;

/// Calls `work` in a thread that the filter holds for.
fn filtered(work: impl FnOnce() + Send + 'static) {
    let filter = Filter::new().unwrap();
    let filtered = move || {
        filter.install_by(seccompiler::apply_filter).unwrap();
        work();
    };
    thread::spawn(filtered).join().unwrap();
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(done: io::Result<T>) {
    assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EPERM));
}

#[test]
fn calls_that_no_run_needs_are_refused() {
    filtered(|| {
        // execve, clone without CLONE_THREAD, unshare, mkdir, chmod: the first would end this program.
        assert_refused(Err::<(), _>(Command::new("false").exec()));
        assert_refused(Command::new("true").spawn());
        assert_refused(wharf_sys::namespace::enter_new_network());
        assert_refused(std::fs::create_dir("/tmp/wharf-is-not-made"));
        assert_refused(std::fs::set_permissions("/dev/null", std::fs::Permissions::from_mode(0o666)));
    });
}

#[test]
fn calls_that_a_run_needs_are_allowed() {
    filtered(|| {
        let joined = thread::Builder::new().name("clone".into()).spawn(|| vec![0u8; 1 << 20].len());
        assert_eq!(joined.unwrap().join().unwrap(), 1 << 20);
        assert!(UnixStream::pair().is_ok() && std::fs::read("/proc/self/status").is_ok());
        assert!(wharf_sys::interface::InterfaceSocket::open().is_ok());
    });
}

/// Returns the kernel's answers for what is no map of sockets.
fn answers_for_no_map() -> [Option<i32>; 2] {
    let file = std::fs::File::open("/dev/null").unwrap();
    [SocketMap::pinned("/dev/null".as_ref()), SocketMap::of(file.into())]
        .map(|map| map.unwrap_err().raw_os_error())
}

/// A device that is opened again by `helper=` or `map=` asks for its map first.
#[test]
fn map_of_sockets_that_is_given_then_the_kernel_answers() {
    let without = answers_for_no_map();
    filtered(move || assert_eq!(answers_for_no_map(), without));
}

/// Runs `program` over a call, as the kernel does (`struct seccomp_data`, linux/filter.h), and returns what is to be done.
fn decide(program: &[seccompiler::sock_filter], call: libc::c_long, arguments: [u64; 3]) -> u32 {
    let processor = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let processor = match processor {
        TargetArch::x86_64 => 0xc000_003e_u32,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    };
    let mut data = [call as u32, processor, 0, 0].map(u32::to_le_bytes).concat();
    data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
    let (mut at, mut word) = (0, 0);
    loop {
        let step = &program[at];
        let holds = match step.code {
            0x20 => {
                word = u32::from_le_bytes(data[step.k as usize..][..4].try_into().unwrap());
                true
            }
            0x54 => {
                word &= step.k;
                true
            }
            0x06 => return step.k,
            0x05 => {
                at += step.k as usize;
                true
            }
            0x15 => word == step.k,
            0x25 => word > step.k,
            0x35 => word >= step.k,
            code => panic!("unknown instruction {code:#x}"),
        };
        at += 1 + usize::from(if holds { step.jt } else { step.jf });
    }
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

#[test]
fn each_call_has_its_answer() {
    let filter = Filter::new().unwrap();
    let decide = |call, arguments| decide(&filter.allowed, call, arguments);
    let refused = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_pivot_root,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_open_by_handle_at,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_pidfd_getfd,
        libc::SYS_kill,
        libc::SYS_setuid,
        libc::SYS_setresuid,
        libc::SYS_capset,
        libc::SYS_seccomp,
        libc::SYS_personality,
        libc::SYS_pkey_mprotect,
        libc::SYS_shmat,
        libc::SYS_reboot,
        // The bit of x32 calls.
        libc::SYS_read | 0x4000_0000,
    ];
    refused.iter().for_each(|&call| assert_eq!(decide(call, [0; 3]), REFUSE, "{call}"));
    let allowed =
        [libc::SYS_read, libc::SYS_futex, libc::SYS_sendmsg, libc::SYS_membarrier, libc::SYS_clone3];
    allowed.iter().for_each(|&call| assert_eq!(decide(call, [0; 3]), ALLOW, "{call}"));
}

#[test]
fn arguments_decide_where_a_call_can_do_harm() {
    let filter = Filter::new().unwrap();
    let decide = |call, arguments| decide(&filter.allowed, call, arguments);
    let word = |value: libc::c_int| value as u64;
    let thread = word(libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND);
    let pid = u64::from(std::process::id());
    for (call, yes, no) in [
        (libc::SYS_socket, [word(libc::AF_XDP), 3, 0], [word(libc::AF_VSOCK), 1, 0]),
        (libc::SYS_socket, [word(libc::AF_UNIX), 1, 0], [word(libc::AF_ALG), 5, 0]),
        (libc::SYS_prctl, [word(libc::PR_SET_NAME), 0, 0], [word(libc::PR_SET_DUMPABLE), 1, 0]),
        // BPF_OBJ_GET, and BPF_OBJ_PIN; BPF_OBJ_GET_INFO_BY_FD, and BPF_MAP_GET_FD_BY_ID.
        (libc::SYS_bpf, [7, 0, 0], [6, 0, 0]),
        (libc::SYS_bpf, [15, 0, 0], [14, 0, 0]),
        // BPF_MAP_DELETE_ELEM, and BPF_MAP_GET_NEXT_KEY; BPF_LINK_CREATE, and BPF_PROG_GET_FD_BY_ID.
        (libc::SYS_bpf, [3, 0, 0], [4, 0, 0]),
        (libc::SYS_bpf, [28, 0, 0], [13, 0, 0]),
        (libc::SYS_tgkill, [pid, 1, 6], [pid + 1, 1, 6]),
        // FIONREAD, and TIOCSTI: the kernel takes 32 bits of a request. TUNGETIFF, and TIOCLINUX.
        (libc::SYS_ioctl, [1, 0x541b, 0], [1, 0x5412 | 1 << 32, 0]),
        (libc::SYS_ioctl, [1, 0x8004_54d2, 0], [1, 0x541c, 0]),
        (libc::SYS_mmap, [0, 4096, 3], [0, 4096, 7]),
        (libc::SYS_mprotect, [0, 4096, 3], [0, 4096, 4]),
        (libc::SYS_clone, [thread, 0, 0], [word(libc::CLONE_VM | libc::CLONE_VFORK), 0, 0]),
        (libc::SYS_clone, [thread, 0, 0], [word(libc::CLONE_NEWUSER), 0, 0]),
    ] {
        assert_eq!((decide(call, yes), decide(call, no)), (ALLOW, REFUSE), "{call}");
    }
    let unknown = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let decide = |call| super::tests::decide(&filter.without_clone3, call, [0; 3]);
    assert_eq!((decide(libc::SYS_clone3), decide(libc::SYS_clone)), (unknown, ALLOW));
}
