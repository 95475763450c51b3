//! Reads for which the system returns half, below SQLite's own code, which has to ask for the rest.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use rusqlite::ffi::sqlite3_vfs;

type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;

static REAL: OnceLock<Read> = OnceLock::new();

thread_local! {
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Makes the next read of this thread short.
pub(crate) fn next() {
    IS_SHORT.set(true);
}

/// Replaces `read` in the system's VFS.
#[allow(unsafe_code, reason = "a call of the system is replaced through C pointers")]
pub(crate) unsafe fn install(vfs: *mut sqlite3_vfs) {
    const COMPLETE: &str = "the VFS of a Unix system has its calls in a table";
    // SAFETY: the caller gives the system's VFS; SQLite documents that its call of this name has this signature.
    unsafe {
        let real = (*vfs).xGetSystemCall.expect(COMPLETE)(vfs, c"read".as_ptr()).expect(COMPLETE);
        REAL.get_or_init(|| mem::transmute::<unsafe extern "C" fn(), Read>(real));
        let ours = mem::transmute::<Read, unsafe extern "C" fn()>(read);
        (*vfs).xSetSystemCall.expect(COMPLETE)(vfs, c"read".as_ptr(), Some(ours));
    }
}

#[allow(unsafe_code, reason = "a call of the system")]
unsafe extern "C" fn read(file: c_int, buffer: *mut c_void, amount: usize) -> isize {
    let amount = if IS_SHORT.take() { amount.div_ceil(2) } else { amount };
    // SAFETY: it is set before this is called; fewer bytes than fit into the caller's buffer are requested.
    unsafe { REAL.get().expect("the real call is kept before it is replaced")(file, buffer, amount) }
}
