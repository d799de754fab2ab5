//! Error numbers of `errno(3)`, as the C library of this architecture numbers them: a `match` on
//! [`std::io::Error::raw_os_error`] takes them as patterns.

pub use libc::{
    E2BIG, EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBADFD, EBUSY, ECONNREFUSED, EEXIST, EHOSTDOWN,
    EHOSTUNREACH, EINTR, EINVAL, EIO, EMFILE, EMSGSIZE, ENETDOWN, ENETUNREACH, ENOBUFS, ENODEV, ENOENT,
    ENOMEM, ENOSPC, ENOSYS, ENOTTY, ENXIO, EOPNOTSUPP, EPERM, EPIPE,
};
