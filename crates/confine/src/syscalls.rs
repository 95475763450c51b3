//! The table of system calls that a command may not make. A tool of a developer needs none of them; each is a way to more
//! rights, to other processes, or to a part of the kernel with a record of errors.

use libc::c_long;

/// Calls that always fail.
pub(crate) const DENIED: &[c_long] = &[
    // Memory and descriptors of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    // They do what other rules forbid, without the calls that the rules see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by number instead of by path.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Keys of the session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs and faults inside the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// Flags of `clone` and `unshare` that make a namespace.
pub(crate) const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The flag of `unshare` for clocks. In `clone` the bit belongs to the signal of the child's end.
pub(crate) const NEW_TIME: i32 = 0x80;

/// Requests of `ioctl` that type into a terminal, or change what drives it: `TIOCSTI`, `TIOCLINUX`, `TIOCSETD`.
pub(crate) const TERMINAL_REQUESTS: [u64; 3] = [0x5412, 0x541C, 0x5423];
