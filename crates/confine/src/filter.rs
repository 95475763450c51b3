//! The seccomp filters: a list of what is denied, since a command may be any program.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

use crate::profile::{NetworkAccess, Tier};
use crate::setup::{AtStep as _, SetupError, SetupStep};
use crate::syscalls::{DENIED, NAMESPACES, NEW_TIME, TERMINAL_REQUESTS};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type FilterResult<T> = Result<T, seccompiler::BackendError>;

/// Which sockets a command may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// IP, and questions about interfaces. In an own network namespace these lead nowhere.
    Internet,
    /// None but pairs.
    None,
}

impl Sockets {
    pub(crate) fn of(tier: Tier, network: NetworkAccess) -> Self {
        match (tier, network) {
            // Without a namespace only the absence of sockets keeps a command from the network.
            (Tier::B | Tier::C, NetworkAccess::None | NetworkAccess::Proxy) => Self::None,
            (Tier::A, NetworkAccess::None | NetworkAccess::Proxy) | (_, NetworkAccess::Host) => Self::Internet,
        }
    }
}

/// Applies the filters to this process and all that it starts. It must have given up new privileges.
pub(crate) fn apply(sockets: Sockets) -> Result<(), SetupError> {
    let programs = programs(sockets).at(SetupStep::Seccomp, "the filters")?;
    for program in programs {
        apply_filter(&program).at(SetupStep::Seccomp, "the kernel")?;
    }
    Ok(())
}

fn programs(sockets: Sockets) -> FilterResult<[BpfProgram; 2]> {
    let by_argument = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    Ok([by_number(), compiled(by_arguments(sockets)?, by_argument)?])
}

/// Calls of another architecture end the process: their numbers mean something else.
fn compiled(rules: Rules, action: SeccompAction) -> FilterResult<BpfProgram> {
    BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, action, ARCHITECTURE)?)
}

/// Calls that fail with some arguments.
fn by_arguments(sockets: Sockets) -> FilterResult<Rules> {
    let mut rules = Rules::new();
    rules.insert(libc::SYS_clone, namespaces(&NAMESPACES)?);
    rules.insert(libc::SYS_unshare, namespaces(&[&NAMESPACES[..], &[NEW_TIME]].concat())?);
    let requests = TERMINAL_REQUESTS.map(|request| rule([equals(1, request)]));
    rules.insert(libc::SYS_ioctl, requests.into_iter().collect::<FilterResult<_>>()?);
    rules.insert(libc::SYS_socket, denied_sockets(sockets)?);
    Ok(rules)
}

/// One rule for each flag, since any of them is enough.
fn namespaces(flags: &[i32]) -> FilterResult<Vec<SeccompRule>> {
    let with_flag = |flag: &i32| {
        let flag = u64::from(flag.unsigned_abs());
        rule([SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)])
    };
    flags.iter().map(with_flag).collect()
}

fn denied_sockets(sockets: Sockets) -> FilterResult<Vec<SeccompRule>> {
    const FAMILY: u8 = 0;
    const KIND: u8 = 1;
    const PROTOCOL: u8 = 2;
    /// The kind of a socket is in its lowest bits; above them are flags.
    const KIND_BITS: u64 = 0xf;
    if sockets == Sockets::None {
        return Ok(vec![]);
    }
    let number = |number: i32| u64::from(number.unsigned_abs());
    let (v4, v6, netlink) = (number(libc::AF_INET), number(libc::AF_INET6), number(libc::AF_NETLINK));
    let raw =
        SeccompCondition::new(KIND, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(KIND_BITS), number(libc::SOCK_RAW));
    Ok(vec![
        rule([differs(FAMILY, v4), differs(FAMILY, v6), differs(FAMILY, netlink)])?,
        // Netlink has only raw and datagram sockets, and both are the same.
        rule([differs(FAMILY, netlink), raw])?,
        rule([equals(FAMILY, netlink), differs(PROTOCOL, number(libc::NETLINK_ROUTE))])?,
        // Other ways of TCP, which Landlock does not count as such.
        rule([differs(FAMILY, netlink), equals(PROTOCOL, number(libc::IPPROTO_MPTCP))])?,
        rule([differs(FAMILY, netlink), equals(PROTOCOL, number(libc::IPPROTO_SCTP))])?,
    ])
}

fn rule<const N: usize>(conditions: [FilterResult<SeccompCondition>; N]) -> FilterResult<SeccompRule> {
    SeccompRule::new(conditions.into_iter().collect::<FilterResult<_>>()?)
}

/// Only the lower half is compared: the kernel ignores the upper one, which a program could set.
fn equals(argument: u8, value: u64) -> FilterResult<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn differs(argument: u8, value: u64) -> FilterResult<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// Calls that always fail: one comparison for each, where the general compiler makes six steps, which every confined process
/// would pay for at its start. The other program checks the architecture, and the stricter answer wins.
///
/// A call of the x32 interface, whose numbers begin at 0x40000000, ends the process: a list of what is denied knows none of
/// them, and no other number is that large. `clone3` is unknown, since its flags are in memory, where a filter cannot read
/// them; programs try `clone` then.
fn by_number() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const FAIL: u32 = 0x0005_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    // The number of the call is the first field of what a filter sees.
    let mut program = vec![
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_GREATER_OR_EQUAL, 0, 1, 0x4000_0000),
        step(RETURN, 0, 0, KILL_PROCESS),
        step(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_clone3)),
        step(RETURN, 0, 0, FAIL | libc::ENOSYS.unsigned_abs()),
    ];
    for (index, call) in DENIED.iter().enumerate() {
        // To the last step, over those that follow and the one that allows.
        let distance = u8::try_from(DENIED.len() - index).expect("the table has fewer than 256 calls");
        program.push(step(JUMP_IF_EQUAL, distance, 0, number(*call)));
    }
    program.push(step(RETURN, 0, 0, ALLOW));
    program.push(step(RETURN, 0, 0, FAIL | libc::EPERM.unsigned_abs()));
    program
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("the number of a call is small")
}
