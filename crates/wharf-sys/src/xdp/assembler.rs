//! `Assembler`: programs of the kernel's eBPF machine, an instruction at a time (Documentation/bpf/standardization/instruction-set.rst).

use std::os::fd::{AsRawFd, BorrowedFd};

/// Verdict of a program: the packet goes on to the host.
pub const XDP_PASS: i32 = 2;
/// Number of the function that hands a packet to an entry of a map (`bpf_redirect_map`).
pub const REDIRECT_MAP: i32 = 51;
/// Verdict of a program: the packet goes nowhere.
pub const XDP_DROP: i32 = 1;
/// Numbers of functions: the address of an entry of a map or 0, the monotonic time, a random number of 32
/// bits, and a copy of a packet's bytes, for a socket's filter and for an XDP program.
pub const MAP_LOOKUP: i32 = 1;
/// See [`MAP_LOOKUP`].
pub const KTIME_GET_NS: i32 = 5;
/// See [`MAP_LOOKUP`].
pub const GET_PRANDOM_U32: i32 = 7;
/// See [`MAP_LOOKUP`].
pub const SKB_LOAD_BYTES: i32 = 26;
/// See [`MAP_LOOKUP`].
pub const XDP_LOAD_BYTES: i32 = 189;
/// A copy of bytes counted from the network header, if `R5` is 1 (`BPF_HDR_START_NET`).
pub const SKB_LOAD_BYTES_RELATIVE: i32 = 68;
/// Offsets in `struct xdp_md`, the program's context: the packet's first byte, the byte behind its last one in the first buffer,
/// and the queue's number.
pub const DATA_AT: i16 = 0;
/// See [`DATA_AT`].
pub const DATA_END_AT: i16 = 4;
/// See [`DATA_AT`].
pub const RX_QUEUE_INDEX_AT: i16 = 16;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

impl Instruction {
    /// Registers `to` and `from` are bit fields, which begin at the low end on little-endian machines only.
    const fn new(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Self {
        let registers = if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
        Self { code, registers, offset, immediate }
    }

    /// Returns operation, destination and source register, offset and immediate.
    pub fn parts(&self) -> (u8, u8, u8, i16, i32) {
        let (low, high) = (self.registers & 0xf, self.registers >> 4);
        let (to, from) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        (self.code, to, from, self.offset, self.immediate)
    }
}

/// A register: `R0` has a function's result and the program's verdict, `R1` to `R5` a function's arguments, which it destroys.
/// The program begins with its context in `R1`, and the end of its 512 bytes of stack in `R10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Bytes that a load reads, or a store writes, with the code of a load: `BPF_LDX | BPF_MEM` and the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte = 0x71,
    /// Two bytes, in the machine's order.
    Half = 0x69,
    /// Four bytes, in the machine's order.
    Word = 0x61,
    /// Eight bytes, in the machine's order.
    Double = 0x79,
}

/// Bit of `BPF_STX`, which `BPF_LDX` lacks.
const STORE: u8 = 0x02;

/// A condition of a jump: a register against a number, both without a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// They are equal.
    Equal,
    /// They differ.
    NotEqual,
    /// The register is greater.
    Above,
    /// The register is less.
    Below,
}

/// A place in a program that jumps lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// A program that is being written. Jumps lead forward only, so that it ends.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// The jumps to each label that is not placed yet.
    labels: Vec<Vec<usize>>,
}

impl Assembler {
    /// Begins a program.
    pub fn new() -> Self {
        Self::default()
    }

    fn add_one(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction::new(code, to as u8, from, offset, immediate));
    }

    /// Loads `width` at `offset` from the address in `from`.
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.add_one(width as u8, to, from as u8, offset, 0);
    }

    /// Stores the low `width` of `from` at `offset` from the address in `to`.
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.add_one(width as u8 | STORE, to, from as u8, offset, 0);
    }

    /// Adds `from` to the eight bytes at `offset` from the address in `to`, as one step.
    pub fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.add_one(0xdb, to, from as u8, offset, 0);
    }

    /// Sets `to` to a number.
    pub fn set(&mut self, to: Register, number: i32) {
        self.add_one(0xb7, to, 0, 0, number);
    }

    /// Sets `to` to a number of 64 bits. Two instructions.
    pub fn set_wide(&mut self, to: Register, number: u64) {
        self.add_one(0x18, to, 0, 0, number as i32);
        self.instructions.push(Instruction::new(0, 0, 0, 0, (number >> 32) as i32));
    }

    /// Copies `from` to `to`.
    pub fn copy(&mut self, to: Register, from: Register) {
        self.add_one(0xbf, to, from as u8, 0, 0);
    }

    /// Adds a number to `to`.
    pub fn add(&mut self, to: Register, number: i32) {
        self.add_one(0x07, to, 0, 0, number);
    }

    /// Adds `from` to `to`.
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.add_one(0x0f, to, from as u8, 0, 0);
    }

    /// Sets `to` to the bits that are set in either.
    pub fn or_register(&mut self, to: Register, from: Register) {
        self.add_one(0x4f, to, from as u8, 0, 0);
    }

    /// Sets `to` to the bits that differ.
    pub fn xor_register(&mut self, to: Register, from: Register) {
        self.add_one(0xaf, to, from as u8, 0, 0);
    }

    /// Multiplies `to` by a number.
    pub fn multiply(&mut self, to: Register, number: i32) {
        self.add_one(0x27, to, 0, 0, number);
    }

    /// Multiplies `to` by `from`.
    pub fn multiply_register(&mut self, to: Register, from: Register) {
        self.add_one(0x2f, to, from as u8, 0, 0);
    }

    /// Keeps those of the low 32 bits of `to` that are set in `mask`.
    pub fn and(&mut self, to: Register, mask: u32) {
        self.add_one(0x54, to, 0, 0, mask as i32);
    }

    /// Multiplies `to` by two to the power of `bits`.
    pub fn shift_left(&mut self, to: Register, bits: i32) {
        self.add_one(0x67, to, 0, 0, bits);
    }

    /// Divides `to` by two to the power of `bits`.
    pub fn shift_right(&mut self, to: Register, bits: i32) {
        self.add_one(0x77, to, 0, 0, bits);
    }

    /// Turns the low 16 bits of `to`, which are in the network's order, into a number; the others become 0.
    pub fn from_network_half(&mut self, to: Register) {
        self.add_one(0xdc, to, 0, 0, 16);
    }

    /// Jumps to `label` if the low 32 bits of `register` meet `condition` with `number`.
    pub fn jump_if(&mut self, register: Register, condition: Condition, number: u32, label: Label) {
        let code = match condition {
            Condition::Equal => 0x16,
            Condition::Above => 0x26,
            Condition::NotEqual => 0x56,
            Condition::Below => 0xa6,
        };
        self.jump_by(code, register, 0, number as i32, label);
    }

    /// Jumps to `label` if all 64 bits of `register` are 0: a function has returned no address.
    pub fn jump_if_null(&mut self, register: Register, label: Label) {
        self.jump_by(0x15, register, 0, 0, label);
    }

    /// Jumps to `label` if `register` is greater than `other`: an address beyond the packet's end.
    pub fn jump_if_beyond(&mut self, register: Register, other: Register, label: Label) {
        self.jump_by(0x2d, register, other as u8, 0, label);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jump_by(0x05, Register::R0, 0, 0, label);
    }

    fn jump_by(&mut self, code: u8, to: Register, from: u8, immediate: i32, label: Label) {
        self.labels[label.0].push(self.instructions.len());
        self.add_one(code, to, from, 0, immediate);
    }

    /// Makes a label, to be placed behind all jumps to it.
    pub fn label(&mut self) -> Label {
        self.labels.push(Vec::new());
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    ///
    /// # Panics
    /// A jump to it is too long, which 30 000 instructions are not.
    pub fn place(&mut self, label: Label) {
        for at in std::mem::take(&mut self.labels[label.0]) {
            let distance = self.instructions.len() - at - 1;
            self.instructions[at].offset = i16::try_from(distance).expect("a jump of less than 32768");
        }
    }

    /// Loads the map `map`, which the program then refers to.
    pub fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) {
        // BPF_PSEUDO_MAP_FD, in place of a register: the number is a descriptor. Two instructions.
        const MAP_FD: u8 = 1;
        self.add_one(0x18, to, MAP_FD, 0, map.as_raw_fd());
        self.instructions.push(Instruction::new(0, 0, 0, 0, 0));
    }

    /// Calls function `number` of the kernel.
    pub fn call(&mut self, number: i32) {
        self.add_one(0x85, Register::R0, 0, 0, number);
    }

    /// Ends the program with the verdict in `R0`.
    pub fn exit(&mut self) {
        self.add_one(0x95, Register::R0, 0, 0, 0);
    }

    /// Returns the program.
    pub fn finish(self) -> Vec<Instruction> {
        debug_assert!(self.labels.iter().all(Vec::is_empty), "a label is not placed");
        self.instructions
    }
}
