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
        let ((their_tag, maps), (tag, _)) = (tag_and_maps(&theirs)?, tag_and_maps(&self.fd)?);
        let maps = maps.into_iter().filter(|_| tag == their_tag);
        let open = |map| SocketMap::of(bpf::descriptor(bpf::MAP_GET_FD_BY_ID, &mut ById::new(map))?);
        let sockets = maps.filter_map(|map| open(map).ok()).next().ok_or_else(other)?;
        let link = link_of(index, id)?.ok_or_else(other)?;
        let _link = bpf::descriptor(bpf::LINK_GET_FD_BY_ID, &mut ById::new(link))?;
        Ok((sockets, Attached { _link }))
    }
}

/// Returns the hash of a program's instructions, in which numbers of maps count as 0, and the numbers of its
/// first maps.
fn tag_and_maps(program: &OwnedFd) -> io::Result<([u8; 8], [u32; 2])> {
    let mut maps = [0; 2];
    let mut info = ProgramInfo::default();
    (info.maps, info.map_ids) = (maps.len() as u32, (&raw mut maps) as u64);
    bpf::read_info(program, &mut info)?;
    Ok((info.tag, maps))
}
