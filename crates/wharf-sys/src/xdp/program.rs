//! The program that hands a queue's frames to a socket: six instructions, loaded and attached by `bpf(2)`.
//!
//! Layouts and numbers: include/uapi/linux/bpf.h.

use super::XdpSocket;
use super::bpf::{self, MapUpdate, ProgramLoad};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The program accepts frames in several buffers: Linux 5.18.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Verdict for frames of queues without a socket.
const XDP_PASS: i32 = 2;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// In `struct xdp_md`: the offset of the queue's number.
const RX_QUEUE_INDEX_AT: i16 = 16;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// Registers `to` and `from` are bit fields, which begin at the low end on little-endian machines only.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    let registers = if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
    Instruction { code, registers, offset, immediate }
}

/// Returns the instructions of `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)`.
const fn redirect(map: i32) -> [Instruction; 6] {
    // BPF_PSEUDO_MAP_FD, in place of a register: the number is a descriptor.
    const MAP_FD: u8 = 1;
    [
        instruction(0x61, 2, 1, RX_QUEUE_INDEX_AT, 0), // r2 = *(u32 *)(r1 + 16)
        instruction(0x18, 1, MAP_FD, 0, map),          // r1 = map, in two instructions
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, XDP_PASS), // r3 = XDP_PASS
        instruction(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(0x95, 0, 0, 0, 0), // return r0
    ]
}

/// The place where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before the kernel makes an `sk_buff`.
    Native,
    /// In the kernel's generic path, with any driver.
    Generic,
}

/// Sockets by the number of their queue: an XSKMAP. The kernel removes a socket that is closed.
#[derive(Debug)]
pub struct SocketMap {
    fd: OwnedFd,
}

impl SocketMap {
    /// Makes an empty map for queues 0 to `queue_max`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` in the first user namespace.
    pub fn new(queue_max: u32) -> io::Result<Self> {
        let entries = queue_max.saturating_add(1);
        // The kind of map, the bytes of a key and of a value, and the number of entries.
        bpf::descriptor(bpf::MAP_CREATE, &[BPF_MAP_TYPE_XSKMAP, 4, 4, entries]).map(|fd| Self { fd })
    }

    /// Directs the frames of queue `queue` to `socket`, which is bound.
    ///
    /// # Errors
    /// `E2BIG` beyond the queues that the map was made for.
    pub fn direct(&self, queue: u32, socket: &XdpSocket) -> io::Result<()> {
        let socket = socket.fd().as_raw_fd();
        let update = MapUpdate {
            map: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const socket) as u64,
            flags: 0,
        };
        bpf::call(bpf::MAP_UPDATE_ELEM, &update).map(drop)
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// A program attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Program {
    /// Loads the program that hands the frames of each queue to its socket in `sockets`, and those of the others to the host.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN` in the first user namespace.
    pub fn redirecting(sockets: &SocketMap) -> io::Result<Self> {
        Self::load(&redirect(sockets.fd.as_raw_fd()))
    }

    fn load(instructions: &[Instruction]) -> io::Result<Self> {
        // Linux before 5.18 refuses the flag.
        load(instructions, BPF_F_XDP_HAS_FRAGS).or_else(|_| load(instructions, 0)).map(|fd| Self { fd })
    }

    /// Attaches the program to interface `index`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the driver cannot; `EBUSY` or `EEXIST` if the interface has such a program.
    pub fn attach(&self, index: i32, hook: Hook) -> io::Result<Attached> {
        let flags = match hook {
            Hook::Native => XDP_FLAGS_DRV_MODE,
            Hook::Generic => XDP_FLAGS_SKB_MODE,
        };
        let (program, interface) = (self.fd.as_raw_fd() as u32, index as u32);
        let link = bpf::descriptor(bpf::LINK_CREATE, &[program, interface, BPF_XDP, flags])?;
        Ok(Attached { _link: link })
    }
}

fn load(instructions: &[Instruction], flags: u32) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..5].copy_from_slice(b"wharf");
    let load = ProgramLoad {
        program_type: BPF_PROG_TYPE_XDP,
        instructions: instructions.len() as u32,
        at: instructions.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name,
        interface: 0,
        expected_attach_type: BPF_XDP,
    };
    bpf::descriptor(bpf::PROG_LOAD, &load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_program_equals_the_one_by_the_kernels_macros() {
        let bytes: Vec<u8> = redirect(0x0102)
            .iter()
            .flat_map(|one| {
                [
                    [one.code, one.registers].as_slice(),
                    &one.offset.to_le_bytes(),
                    &one.immediate.to_le_bytes(),
                ]
                .concat()
            })
            .collect();
        let want = [
            [0x61, 0x12, 16, 0, 0, 0, 0, 0],
            [0x18, 0x11, 0, 0, 2, 1, 0, 0],
            [0; 8],
            [0xb7, 3, 0, 0, 2, 0, 0, 0],
            [0x85, 0, 0, 0, 51, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, want.concat());
    }
}
