//! Escapes by system calls. They are made with their numbers by Perl, which every Debian has, because the standard library
//! has no such calls.

use std::os::unix::process::ExitStatusExt as _;

use libc::c_long;

use crate::support::{BOTH, World, each, refused};

/// The error of a call with these arguments: 0 if it succeeds.
fn error_of(world: &World, call: c_long, arguments: &str) -> i32 {
    world.succeed(&script(call, arguments)).parse().unwrap()
}

fn script(call: c_long, arguments: &str) -> String {
    format!("perl -e '$! = 0; syscall({call}, {arguments}); print $! + 0'")
}

fn outside(world: &World, call: c_long, arguments: &str) -> i32 {
    let output = world.bare(&["sh", "-c", &script(call, arguments)]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

/// Each of these calls has this error inside, and another one or none outside.
fn check(number: u32, error: i32, calls: &[(c_long, &str)]) {
    each(&BOTH, |world| {
        for (call, arguments) in calls {
            let found = error_of(world, *call, arguments);
            assert_eq!(found, error, "escape {number}: call {call} ({arguments}) {}", world.name());
        }
    });
}

#[test]
fn escape_33_memory_and_descriptors_of_others() {
    let calls = [
        (libc::SYS_process_vm_readv, "1, 0, 0, 0, 0, 0"),
        (libc::SYS_process_vm_writev, "1, 0, 0, 0, 0, 0"),
        (libc::SYS_pidfd_getfd, "0, 0, 0"),
        (libc::SYS_kcmp, "$$, $$, 0, 0, 0"),
        (libc::SYS_ptrace, "0, 0, 0, 0"),
    ];
    check(33, libc::EPERM, &calls);
    each(&BOTH, |world| {
        for (call, arguments) in calls {
            assert_ne!((call, outside(world, call, arguments)), (call, libc::EPERM));
        }
    });
}

#[test]
fn escape_47_io_uring() {
    check(
        47,
        libc::EPERM,
        &[
            (libc::SYS_io_uring_setup, "0, 0"),
            (libc::SYS_io_uring_enter, "0, 0, 0, 0, 0"),
            (libc::SYS_io_uring_register, "0, 0, 0, 0"),
        ],
    );
}

/// Calls of the x32 interface end the process.
#[test]
#[cfg(target_arch = "x86_64")]
fn escape_48_calls_of_another_interface() {
    each(&BOTH, |world| {
        let output = world.command(&world.profile(), &["perl", "-e", "syscall(0x40000027)"]).output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{}{output:?}", world.name());
        let outside = world.bare(&["perl", "-e", "syscall(0x40000027)"]).output().unwrap();
        assert!(outside.status.success(), "{outside:?}");
    });
}

#[test]
fn escape_49_a_new_user_namespace() {
    check(49, libc::ENOSYS, &[(libc::SYS_clone3, "0, 0")]);
    let flags = [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_NEWNET, libc::CLONE_NEWUTS];
    for flag in flags {
        check(49, libc::EPERM, &[(libc::SYS_unshare, &flag.to_string()), (libc::SYS_clone, &flag.to_string())]);
    }
    each(&BOTH, |world| world.refuse(49, "unshare -Ur true"));
}

#[test]
fn escape_50_51_52_mounts_and_namespaces_of_others() {
    check(
        51,
        libc::EPERM,
        &[
            (libc::SYS_mount, "0, 0, 0, 0, 0"),
            (libc::SYS_umount2, "0, 0"),
            (libc::SYS_pivot_root, "0, 0"),
            (libc::SYS_chroot, "0"),
            (libc::SYS_setns, "0, 0"),
            (libc::SYS_open_tree, "0, 0, 0"),
            (libc::SYS_move_mount, "0, 0, 0, 0, 0"),
            (libc::SYS_fsopen, "0, 0"),
            (libc::SYS_fsmount, "0, 0, 0"),
            (libc::SYS_mount_setattr, "0, 0, 0, 0, 0"),
            (libc::SYS_open_by_handle_at, "0, 0, 0"),
        ],
    );
    each(&BOTH, |world| {
        world.refuse(51, r#"umount "$SECRET""#);
        world.refuse(51, "mount -o remount,bind,rw /");
    });
}

#[test]
fn escape_55_keys_of_the_session() {
    check(
        55,
        libc::EPERM,
        &[
            (libc::SYS_keyctl, "0, 0, 0, 0, 0"),
            (libc::SYS_add_key, "0, 0, 0, 0, 0"),
            (libc::SYS_request_key, "0, 0, 0, 0"),
        ],
    );
}

/// The kernel ignores the upper half of the number of a request, so the filter must too.
/// No list says which programs run, so there is none to go round: what is executed from memory is in the sandbox like all others.
#[test]
fn escape_56_a_program_in_memory_is_confined_too() {
    let script = format!(
        r##"perl -e '$^F = 99; my $name = "x"; my $fd = syscall({}, $name, 0); open(my $program, ">&=", $fd) or exit 0; syswrite $program, "#!/bin/sh\necho x >$ENV{{OUT}}/new\n"; exec "/proc/self/fd/$fd"'"##,
        libc::SYS_memfd_create
    );
    refused(56, &BOTH, &script);
}

#[test]
fn escape_58_typing_into_the_terminal() {
    for request in ["0x5412", "0x541C", "0x5423", "0x100005412"] {
        check(58, libc::EPERM, &[(libc::SYS_ioctl, &format!("0, {request}, 0"))]);
    }
    // Another request reaches the kernel, which says that this is no terminal.
    each(&BOTH, |world| assert_ne!(error_of(world, libc::SYS_ioctl, "0, 0x5401, 0"), libc::EPERM));
}

#[test]
fn parts_of_the_kernel_that_no_tool_needs() {
    check(
        0,
        libc::EPERM,
        &[
            (libc::SYS_bpf, "0, 0, 0"),
            (libc::SYS_perf_event_open, "0, 0, 0, 0, 0"),
            (libc::SYS_userfaultfd, "0"),
            (libc::SYS_init_module, "0, 0, 0"),
            (libc::SYS_kexec_load, "0, 0, 0, 0"),
            (libc::SYS_reboot, "0, 0, 0, 0"),
            (libc::SYS_clock_settime, "0, 0"),
        ],
    );
}
