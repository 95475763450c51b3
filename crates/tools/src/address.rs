//! Decides which addresses are on the public internet. Any other address may belong to a router, a cloud's metadata service
//! or a printer, and a page from outside must not be able to send an agent there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public, from the IANA special-purpose registry, and the public address at which one large
/// cloud serves its metadata.
const NOT_PUBLIC_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([168, 63, 129, 16], 32),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// The one IPv6 network of global unicast addresses.
const PUBLIC_V6: (u128, u32) = (0x2000 << 112, 3);

/// Networks inside [`PUBLIC_V6`] that are not public: special assignments (including Teredo), documentation, 6to4, and a
/// second range for documentation.
const NOT_PUBLIC_V6: &[(u128, u32)] =
    &[(0x2001 << 112, 23), (0x2001_0db8 << 96, 32), (0x2002 << 112, 16), (0x3fff << 112, 20)];

/// The NAT64 prefix: the last four bytes hold the IPv4 address.
const TRANSLATED: (u128, u32) = (0x0064_ff9b << 96, 96);

/// Returns whether anyone on the internet could reach this address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within =
        |(network, bits): &([u8; 4], u32)| (u32::from(address) ^ u32::from_be_bytes(*network)).leading_zeros() >= *bits;
    !NOT_PUBLIC_V4.iter().any(within)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(network, bits): &(u128, u32)| (u128::from(address) ^ network).leading_zeros() >= *bits;
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    if within(&TRANSLATED) {
        return is_public_v4(Ipv4Addr::from(u128::from(address) as u32));
    }
    within(&PUBLIC_V6) && !NOT_PUBLIC_V6.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("172.15.0.1", true),
            ("172.32.0.1", true),
            ("192.169.0.1", true),
            ("223.255.255.255", true),
            ("2606:4700:4700::1111", true),
            ("64:ff9b::808:808", true),
            ("::ffff:8.8.8.8", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.100.100.200", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("168.63.129.16", false),
            ("169.254.169.254", false),
            ("172.31.255.255", false),
            ("192.0.0.192", false),
            ("192.168.1.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:a9fe:a9fe", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b:1::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
