//! Internet addresses as text: `"I"$"127.0.0.1"`, `"G"$"::1"`, `.Q.addr`, `.Q.host`.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use columns::table::Value;
use columns::table::symbol::{intern, text};
use std::net::{IpAddr, Ipv4Addr};

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses four numbers separated by dots, the first the highest byte.
pub(crate) fn ipv4(text: &[u8]) -> Option<u32> {
    parse::<Ipv4Addr>(text).map(u32::from)
}

/// Parses an address into a guid: IPv4 in its IPv6-mapped form.
pub(crate) fn guid(text: &[u8]) -> Option<[u8; 16]> {
    match parse::<IpAddr>(text)? {
        IpAddr::V4(v4) => {
            let mut out = [0; 16];
            let mapped = v4.to_ipv6_mapped().octets();
            out.copy_from_slice(&mapped);
            Some(out)
        }
        IpAddr::V6(v6) => Some(v6.octets()),
    }
}

/// Names and addresses of `/etc/hosts`, if the evaluation may access files; always `localhost`.
fn hosts(context: &Context) -> Vec<(Ipv4Addr, Vec<u8>)> {
    let mut known = vec![(Ipv4Addr::LOCALHOST, b"localhost".to_vec())];
    if crate::runtime::paths::allowed(context) {
        for line in std::fs::read("/etc/hosts").unwrap_or_default().split(|c| *c == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
            if let Some(address) = words.next().and_then(parse::<Ipv4Addr>) {
                known.extend(words.map(|name| (address, name.to_vec())));
            }
        }
    }
    known
}

/// `.Q.addr x`: a host's address as an int, -1 if unknown.
pub(crate) fn addr(context: &mut Context, x: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    let name = text(name);
    let known = ipv4(name).or_else(|| hosts(context).into_iter().find(|(_, n)| n == name).map(|(a, _)| u32::from(a)));
    Ok(Value::Int(known.map_or(-1, u32::cast_signed)))
}

/// `.Q.host x`: the name of an address, null if unknown.
pub(crate) fn host(context: &mut Context, x: Value) -> Result {
    let Value::Int(address) = x else { return Err(type_error()) };
    let address = Ipv4Addr::from(address.cast_unsigned());
    let name = hosts(context).into_iter().find(|(a, _)| *a == address).map(|(_, n)| n).unwrap_or_default();
    Ok(Value::Sym(intern(&name).map_err(QError::from)?))
}
