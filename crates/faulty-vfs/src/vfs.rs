//! The table of C functions between SQLite and the system's VFS.
//!
//! The system's VFS opens a file without a disk directly in the memory that SQLite gave, and owns it from then on. A
//! file on a disk is a [`Wrapped`]: our head, followed by the system's file.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::{mem, ptr, slice, thread};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use crate::disk::{self, Shared};
use crate::fault::{OperationKind, Verdict};
use crate::image::Change;
use crate::short_read;

const COMPLETE: &str = "the VFS of a Unix system has every method";

/// The memory of an open file of ours. The system's file follows it.
#[repr(C)]
struct Wrapped {
    head: sqlite3_file,
    state: *mut FileState,
}

/// What this VFS knows about an open file.
struct FileState {
    disk: Arc<Shared>,
    path: PathBuf,
}

/// Version 2 has no memory-mapped reads: every read is seen.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(take_lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Makes this VFS the default of the process, once.
#[allow(unsafe_code, reason = "a VFS is registered by a C function")]
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: SQLite gives the default VFS, which lives as long as the process; the copy is leaked, so that it
        // lives as long. The methods that the copy keeps take no notice of which VFS they are called for
        // (`UNUSED_PARAMETER` in `os_unix.c` of the SQLite that is built in); those that do are `open` and `delete`,
        // which are ours.
        unsafe {
            let real = ffi::sqlite3_vfs_find(ptr::null());
            let ours = sqlite3_vfs {
                szOsFile: (*real).szOsFile + mem::size_of::<Wrapped>() as c_int,
                pNext: ptr::null_mut(),
                zName: c"faulty".as_ptr(),
                pAppData: real.cast(),
                xOpen: Some(open),
                xDelete: Some(delete),
                ..*real
            };
            let code = ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1);
            assert_eq!(code, ffi::SQLITE_OK, "the VFS cannot be registered");
            short_read::install(real);
        }
    });
}

/// The path in a name of SQLite; `None` for a file without a name.
#[allow(unsafe_code, reason = "names come as C strings")]
fn path_of<'a>(name: *const std::ffi::c_char) -> Option<&'a Path> {
    // SAFETY: SQLite gives null or a string that ends with a zero and lives as long as the call.
    let name = unsafe { (!name.is_null()).then(|| CStr::from_ptr(name)) }?;
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const std::ffi::c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `vfs` is ours, whose data is the system's VFS; `file` has the size that ours asks for, so the system's
    // file fits into it, alone or behind our head (whose size is a multiple of its alignment).
    unsafe {
        let real = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let real_open = (*real).xOpen.expect(COMPLETE);
        let Some((path, disk)) = path_of(name).and_then(|path| Some((path, disk::disk_of(path)?))) else {
            return real_open(real, name, file, flags, out_flags);
        };
        (*file).pMethods = ptr::null();
        let was_there = path.exists();
        let create = || (!was_there && flags & ffi::SQLITE_OPEN_CREATE != 0).then_some(Change::Create);
        if let Verdict::Fail(code) = disk.begin(OperationKind::Open, path, create) {
            return code;
        }
        let below = file.cast::<Wrapped>().add(1).cast::<sqlite3_file>();
        let code = real_open(real, name, below, flags, out_flags);
        if code != ffi::SQLITE_OK {
            return code;
        }
        disk.opened(path, was_there.then(|| whole(below)));
        let state = Box::into_raw(Box::new(FileState { disk, path: path.to_owned() }));
        file.cast::<Wrapped>().write(Wrapped { head: sqlite3_file { pMethods: &raw const METHODS }, state });
        ffi::SQLITE_OK
    }
}

/// The content of an open file of the system. Read through this handle: closing another one would release its locks.
#[allow(unsafe_code, reason = "methods of a C table are called")]
unsafe fn whole(file: *mut sqlite3_file) -> Vec<u8> {
    // SAFETY: the caller has opened the file; the buffer has the requested length.
    unsafe {
        let methods = &*(*file).pMethods;
        let mut size = 0;
        methods.xFileSize.expect(COMPLETE)(file, &raw mut size);
        let mut bytes = vec![0; size as usize];
        methods.xRead.expect(COMPLETE)(file, bytes.as_mut_ptr().cast(), size as c_int, 0);
        bytes
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const std::ffi::c_char, sync_folder: c_int) -> c_int {
    // SAFETY: as for `open`.
    unsafe {
        let real = (*vfs).pAppData.cast::<sqlite3_vfs>();
        let real_delete = (*real).xDelete.expect(COMPLETE);
        let Some((path, disk)) = path_of(name).and_then(|path| Some((path, disk::disk_of(path)?))) else {
            return real_delete(real, name, sync_folder);
        };
        if let Verdict::Fail(code) = disk.begin(OperationKind::Delete, path, || Some(Change::Delete)) {
            return code;
        }
        let code = real_delete(real, name, sync_folder);
        if code == ffi::SQLITE_OK {
            disk.changed(path, Change::Delete);
            if sync_folder != 0 {
                disk.folder_synced();
            }
        }
        code
    }
}

/// The parts of a file of ours: what we know about it, the system's file, and the system's methods.
#[allow(unsafe_code, reason = "files come as C pointers")]
unsafe fn parts<'a>(file: *mut sqlite3_file) -> (&'a FileState, *mut sqlite3_file, &'a sqlite3_io_methods) {
    // SAFETY: only `open` gives a file these methods, and then it is a `Wrapped` with the system's file behind it,
    // which is open, until `close`; SQLite uses a file from one thread at a time.
    unsafe {
        let wrapped = file.cast::<Wrapped>();
        let below = wrapped.add(1).cast::<sqlite3_file>();
        (&*(*wrapped).state, below, &*(*below).pMethods)
    }
}

/// Methods that are the system's.
macro_rules! forward {
    ($(fn $name:ident = $method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[allow(unsafe_code, reason = "a method of a C table")]
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($argument: $type),*) -> $result {
            // SAFETY: SQLite calls it for a file of ours; the arguments are passed on as they are.
            unsafe {
                let (_, below, methods) = parts(file);
                methods.$method.expect(COMPLETE)(below, $($argument),*)
            }
        }
    )*};
}

forward! {
    fn file_size = xFileSize(size: *mut i64) -> c_int;
    fn take_lock = xLock(level: c_int) -> c_int;
    fn unlock = xUnlock(level: c_int) -> c_int;
    fn check_reserved_lock = xCheckReservedLock(is_taken: *mut c_int) -> c_int;
    fn file_control = xFileControl(operation: c_int, argument: *mut c_void) -> c_int;
    fn sector_size = xSectorSize() -> c_int;
    fn device_characteristics = xDeviceCharacteristics() -> c_int;
    fn shm_barrier = xShmBarrier() -> ();
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, and does not use it afterwards; the box was made in `open`.
    unsafe {
        let (state, below, methods) = parts(file);
        let code = methods.xClose.expect(COMPLETE)(below);
        state.disk.closed(&state.path);
        drop(Box::from_raw((*file.cast::<Wrapped>()).state));
        (*file).pMethods = ptr::null();
        code
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn read(file: *mut sqlite3_file, buffer: *mut c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: as for `forward!`.
    unsafe {
        let (state, below, methods) = parts(file);
        match state.disk.begin(OperationKind::Read, &state.path, || None) {
            Verdict::Go | Verdict::Slow(_) => {}
            Verdict::Short => short_read::next(),
            Verdict::Fail(code) => return code,
        }
        methods.xRead.expect(COMPLETE)(below, buffer, amount, offset)
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn write(file: *mut sqlite3_file, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: as for `forward!`; SQLite's data has `amount` bytes.
    unsafe {
        let (state, below, methods) = parts(file);
        let bytes = slice::from_raw_parts(data.cast::<u8>(), amount as usize);
        let change =
            |amount: c_int| Change::Write { offset: offset as usize, bytes: bytes[..amount as usize].to_vec() };
        let (amount, after) = match state.disk.begin(OperationKind::Write, &state.path, || Some(change(amount))) {
            Verdict::Go | Verdict::Slow(_) => (amount, ffi::SQLITE_OK),
            // The code that the system's VFS returns for a write that cannot be completed and for which the system
            // gives no error.
            Verdict::Short => (amount / 2, ffi::SQLITE_FULL),
            Verdict::Fail(code) => return code,
        };
        let code = methods.xWrite.expect(COMPLETE)(below, data, amount, offset);
        if code == ffi::SQLITE_OK {
            state.disk.changed(&state.path, change(amount));
            return after;
        }
        code
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: as for `forward!`.
    unsafe {
        let (state, below, methods) = parts(file);
        let change = Change::Truncate(size as usize);
        if let Verdict::Fail(code) = state.disk.begin(OperationKind::Truncate, &state.path, || Some(change.clone())) {
            return code;
        }
        let code = methods.xTruncate.expect(COMPLETE)(below, size);
        if code == ffi::SQLITE_OK {
            state.disk.changed(&state.path, change);
        }
        code
    }
}

/// Skips the system's own sync: only a real loss of power would show the difference, and syncs take most of the time.
#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: as for `forward!`.
    let (state, ..) = unsafe { parts(file) };
    match state.disk.begin(OperationKind::Sync, &state.path, || None) {
        Verdict::Fail(code) => return code,
        Verdict::Slow(time) => thread::sleep(time),
        Verdict::Go | Verdict::Short => {}
    }
    state.disk.synced(&state.path);
    ffi::SQLITE_OK
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: as for `forward!`; where it fails the caller is given no page.
    unsafe {
        let (state, below, methods) = parts(file);
        if let Verdict::Fail(code) = state.disk.begin(OperationKind::ShmMap, &state.path, || None) {
            *out = ptr::null_mut();
            return code;
        }
        methods.xShmMap.expect(COMPLETE)(below, page, size, extend, out)
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, n: c_int, flags: c_int) -> c_int {
    // SAFETY: as for `forward!`.
    unsafe {
        let (state, below, methods) = parts(file);
        // A dying process releases its locks as well.
        if flags & ffi::SQLITE_SHM_LOCK != 0
            && let Verdict::Fail(code) = state.disk.begin(OperationKind::ShmLock, &state.path, || None)
        {
            return code;
        }
        methods.xShmLock.expect(COMPLETE)(below, offset, n, flags)
    }
}

#[allow(unsafe_code, reason = "a method of a C table")]
unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: as for `forward!`.
    unsafe {
        let (state, below, methods) = parts(file);
        let delete = if state.disk.is_dead() { 0 } else { delete };
        methods.xShmUnmap.expect(COMPLETE)(below, delete)
    }
}
