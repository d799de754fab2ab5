//! Questions about XDP programs that are loaded: their names, and the links by which they are attached. The kernel answers processes
//! with `CAP_SYS_ADMIN`.

use super::bpf::{self, ById, LinkInfo, ProgramInfo};
use crate::call::text;
use std::io;

const BPF_LINK_TYPE_XDP: u32 = 6;

/// Returns the name of program `id`, empty if it has none.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `ENOENT` if it is gone.
pub fn program_name(id: u32) -> io::Result<String> {
    let mut info = ProgramInfo::default();
    bpf::read_info(&bpf::descriptor(bpf::PROG_GET_FD_BY_ID, &mut ById::new(id))?, &mut info)?;
    Ok(text(&info.name))
}

/// Returns the number of the link by which program `program` is attached to interface `index`; `None` if it is attached without one.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn link_of(index: i32, program: u32) -> io::Result<Option<u32>> {
    let mut at = ById::new(0);
    loop {
        match bpf::call(bpf::LINK_GET_NEXT_ID, &mut at) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            asked => asked?,
        };
        at.id = at.next_id;
        // A link may go between the two calls.
        let mut info = LinkInfo::default();
        let link = bpf::descriptor(bpf::LINK_GET_FD_BY_ID, &mut ById::new(at.id));
        if link.and_then(|link| bpf::read_info(&link, &mut info)).is_err() {
            continue;
        }
        if (info.kind, info.program, info.interface) == (BPF_LINK_TYPE_XDP, program, index as u32) {
            return Ok(Some(at.id));
        }
    }
}
