//! `Library`: libibverbs, loaded into this process.

use super::abi::{
    IbvAhAttr, IbvAsyncEvent, IbvCompChannel, IbvContext, IbvCq, IbvDevice, IbvDeviceAttr, IbvGid, IbvMr,
    IbvPortAttr, IbvQp, IbvQpAttr, IbvQpInitAttr,
};
use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The library's file, by the name that its interface has had since 2005.
const FILE: &CStr = c"libibverbs.so.1";

/// The variable of the environment by which libibverbs destroys objects of a device that is removed (ibv_open_device(3)). Without it these
/// calls return `EIO`, and leave the library's memory of each object to the process.
const DESTROYS_REMOVED: &str = "RDMAV_ALLOW_DISASSOC_DESTROY";

/// The symbols that are used: a field for each, of its type in `libibverbs/verbs.h`.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?,)*) => {
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds each symbol by `find`.
            fn find(find: impl Fn(&CStr) -> io::Result<NonNull<c_void>>) -> io::Result<Self> {
                $(
                    const _: () = assert!(!concat!("ibv_", stringify!($name), "\0").is_empty());
                    let name = concat!("ibv_", stringify!($name), "\0").as_bytes();
                    let name = CStr::from_bytes_with_nul(name).map_err(io::Error::other)?;
                    let $name = find(name)?.as_ptr();
                )*
                // SAFETY: the symbols are functions of these types: `libibverbs/verbs.h` declares them so for each library of this
                // name.
                Ok(unsafe { Self { $($name: std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>($name),)* } })
            }
        }
    };
}

functions! {
    get_device_list: fn(*mut c_int) -> *mut *mut IbvDevice,
    free_device_list: fn(*mut *mut IbvDevice),
    get_device_name: fn(*mut IbvDevice) -> *const c_char,
    open_device: fn(*mut IbvDevice) -> *mut IbvContext,
    close_device: fn(*mut IbvContext) -> c_int,
    query_device: fn(*mut IbvContext, *mut IbvDeviceAttr) -> c_int,
    query_port: fn(*mut IbvContext, u8, *mut IbvPortAttr) -> c_int,
    query_gid: fn(*mut IbvContext, u8, c_int, *mut IbvGid) -> c_int,
    get_async_event: fn(*mut IbvContext, *mut IbvAsyncEvent) -> c_int,
    ack_async_event: fn(*mut IbvAsyncEvent),
    alloc_pd: fn(*mut IbvContext) -> *mut c_void,
    dealloc_pd: fn(*mut c_void) -> c_int,
    reg_mr: fn(*mut c_void, *mut c_void, usize, c_int) -> *mut IbvMr,
    dereg_mr: fn(*mut IbvMr) -> c_int,
    create_comp_channel: fn(*mut IbvContext) -> *mut IbvCompChannel,
    destroy_comp_channel: fn(*mut IbvCompChannel) -> c_int,
    create_cq: fn(*mut IbvContext, c_int, *mut c_void, *mut IbvCompChannel, c_int) -> *mut IbvCq,
    destroy_cq: fn(*mut IbvCq) -> c_int,
    get_cq_event: fn(*mut IbvCompChannel, *mut *mut IbvCq, *mut *mut c_void) -> c_int,
    ack_cq_events: fn(*mut IbvCq, c_uint),
    create_qp: fn(*mut c_void, *mut IbvQpInitAttr) -> *mut IbvQp,
    modify_qp: fn(*mut IbvQp, *mut IbvQpAttr, c_int) -> c_int,
    destroy_qp: fn(*mut IbvQp) -> c_int,
    create_ah: fn(*mut c_void, *mut IbvAhAttr) -> *mut c_void,
    destroy_ah: fn(*mut c_void) -> c_int,
}

/// libibverbs. Once loaded it stays until the process ends.
#[derive(Clone, Copy)]
pub struct Library(pub(super) &'static Functions);

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    /// Loads the library, or returns the one that is loaded.
    ///
    /// # Errors
    /// There is no such library, one that it needs is missing, or this program is linked statically and loads none. The text is the
    /// loader's.
    pub fn load() -> io::Result<Self> {
        static LOADED: OnceLock<Functions> = OnceLock::new();
        if let Some(functions) = LOADED.get() {
            return Ok(Self(functions));
        }
        // SAFETY: a C string. The library's constructors do nothing but set up the library itself.
        let library = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library).ok_or_else(loader_error)?;
        let functions = Functions::find(|name| {
            // SAFETY: a library that is never unloaded, and a C string.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) }).ok_or_else(loader_error)
        })?;
        Ok(Self(LOADED.get_or_init(|| functions)))
    }

    /// Returns the names of the devices that this process can see.
    ///
    /// # Errors
    /// The kernel has no RDMA subsystem (`ENOSYS`), or there is no memory.
    pub fn devices(&self) -> io::Result<Vec<String>> {
        let list = DeviceList::new(*self)?;
        Ok(list.names().collect())
    }
}

/// Sets a variable of this process's environment (`RDMAV_ALLOW_DISASSOC_DESTROY`) by which libibverbs gives the memory
/// of a device that is removed back. To be called at the start of `main`: with a second thread, which may read the
/// environment, it does nothing. A program that cannot call it there may be started with the variable.
pub fn free_removed_devices() {
    let has_one_thread = || std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1);
    if std::env::var_os(DESTROYS_REMOVED).is_none() && has_one_thread() {
        // SAFETY: no other thread is there, to read the environment meanwhile or to start another one.
        unsafe { std::env::set_var(DESTROYS_REMOVED, "1") };
    }
}

/// Returns the loader's text of its last error.
fn loader_error() -> io::Error {
    // SAFETY: a text that stays until the next call of the loader in this thread, or null.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"no reason given" } else { CStr::from_ptr(text) }
    };
    io::Error::new(io::ErrorKind::NotFound, text.to_string_lossy().into_owned())
}

/// The list that one `ibv_get_device_list` call returned.
pub(super) struct DeviceList {
    library: Library,
    list: NonNull<*mut IbvDevice>,
    count: usize,
}

impl DeviceList {
    pub(super) fn new(library: Library) -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: the library writes a number.
        let list = unsafe { (library.0.get_device_list)(&raw mut count) };
        let list = NonNull::new(list).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { library, list, count: usize::try_from(count).unwrap_or(0) })
    }

    fn entries(&self) -> impl Iterator<Item = (*mut IbvDevice, String)> {
        (0..self.count).map(|at| {
            // SAFETY: the list has so many entries, each a device that lives as long as the list; its name is a C string inside it.
            unsafe {
                let device = *self.list.as_ptr().add(at);
                let name = CStr::from_ptr((self.library.0.get_device_name)(device));
                (device, name.to_string_lossy().into_owned())
            }
        })
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.entries().map(|(_, name)| name)
    }

    /// Returns the device `name`. It may be used while the list lives.
    pub(super) fn find(&self, name: &str) -> Option<*mut IbvDevice> {
        self.entries().find(|(_, known)| known == name).map(|(device, _)| device)
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: made by the library, and freed once.
        unsafe { (self.library.0.free_device_list)(self.list.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_of_a_process_with_several_threads_stays() {
        let before = std::env::var_os(DESTROYS_REMOVED);
        std::thread::spawn(free_removed_devices).join().unwrap();
        assert_eq!(std::env::var_os(DESTROYS_REMOVED), before);
    }
}
