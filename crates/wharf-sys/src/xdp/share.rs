//! A share in the program that another process, or another device of this one, has attached to an interface by a link.

use super::bpf::{self, ById, ProgramInfo};
use super::inspect::link_of;
use super::program::{Attached, Program};
use super::socket_map::SocketMap;
use std::io;
use std::os::fd::OwnedFd;

impl Program {
    /// Takes a share in program number `id` of interface `index`, if that has the same instructions as this one: the map of its
    /// sockets, and its attachment, which lasts until the last share in it is dropped.
    ///
    /// # Errors
    /// `EEXIST` if it is another program, or attached without a link; `EPERM` without `CAP_SYS_ADMIN`; `ENOENT` if it has gone.
    pub fn share(&self, index: i32, id: u32) -> io::Result<(SocketMap, Attached)> {
        let other = || io::Error::from_raw_os_error(libc::EEXIST);
        let theirs = bpf::descriptor(bpf::PROG_GET_FD_BY_ID, &mut ById::new(id))?;
        let ((their_tag, map), (tag, _)) = (tag_and_map(&theirs)?, tag_and_map(&self.fd)?);
        let map = map.filter(|_| tag == their_tag).ok_or_else(other)?;
        let fd = bpf::descriptor(bpf::MAP_GET_FD_BY_ID, &mut ById::new(map))?;
        let link = link_of(index, id)?.ok_or_else(other)?;
        let _link = bpf::descriptor(bpf::LINK_GET_FD_BY_ID, &mut ById::new(link))?;
        Ok((SocketMap { fd }, Attached { _link }))
    }
}

/// Returns the hash of a program's instructions, in which numbers of maps count as 0, and the number of its map if it has one map.
fn tag_and_map(program: &OwnedFd) -> io::Result<([u8; 8], Option<u32>)> {
    let mut map = 0u32;
    let mut info = ProgramInfo::default();
    (info.maps, info.map_ids) = (1, (&raw mut map) as u64);
    bpf::read_info(program, &mut info)?;
    Ok((info.tag, Some(map).filter(|_| info.maps == 1)))
}
