//! Shared by the tests of this crate: the recorded bytes, and a second encoder.
#![allow(dead_code, reason = "every test file uses its own part")]

pub mod arbitrary;
pub mod reference;
pub mod second;

use std::fs;
use std::path::PathBuf;

use elastick_proto::{Items, Value};
use serde_json::Value as Json;

/// Returns the directory of recorded bytes; prints the reason if it is `None`.
pub fn golden(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/kdb/golden").join(name);
    if path.exists() {
        Some(path)
    } else {
        eprintln!("skipped: {} is missing", path.display());
        None
    }
}

/// Returns the records of a file of JSON lines; none if it is missing.
pub fn json_lines(name: &str) -> Vec<Json> {
    let Some(path) = golden(name) else { return Vec::new() };
    let text = fs::read_to_string(path).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    text.trim().as_bytes().as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn text<'a>(record: &'a Json, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

/// Compares a value with the recorded output of an independent decoder. Long vectors are recorded as `truncated`.
pub fn assert_reads_as(value: &Value, recorded: &Json, what: &str) {
    let ty = i64::from(value.type_code());
    assert_eq!(Some(ty), recorded["t"].as_i64(), "{what}: type");
    if recorded["truncated"] == true {
        return;
    }
    let all = |values: &[Value], recorded: &Json| {
        let recorded = recorded.as_array().expect("a list");
        assert_eq!(values.len(), recorded.len(), "{what}: items");
        values.iter().zip(recorded).for_each(|(value, recorded)| assert_reads_as(value, recorded, what));
    };
    match value {
        Value::Vector { attr, items } => {
            assert_eq!(Some(u64::from(*attr)), recorded["a"].as_u64(), "{what}: attribute");
            if let Items::Char(text) = items {
                assert_eq!(json_text(text), recorded["v"], "{what}");
            } else {
                let recorded = recorded["v"].as_array().expect("a list");
                assert_eq!(items.len(), recorded.len(), "{what}: items");
                for (i, recorded) in recorded.iter().enumerate() {
                    assert_atom(&items.item(i).expect("counted"), recorded, what);
                }
            }
        }
        Value::List { attr, items } => {
            assert_eq!(Some(u64::from(*attr)), recorded["a"].as_u64(), "{what}: attribute");
            all(items, &recorded["v"]);
        }
        Value::Dict { keys, values, .. } => {
            assert_reads_as(keys, &recorded["k"], what);
            assert_reads_as(values, &recorded["v"], what);
        }
        Value::Table { attr, names, columns } => {
            assert_eq!(Some(u64::from(*attr)), recorded["a"].as_u64(), "{what}: attribute");
            let names: Vec<Json> = names.iter().map(|name| json_text(name)).collect();
            assert_eq!(Json::from(names), recorded["d"]["k"]["v"], "{what}: names");
            all(columns, &recorded["d"]["v"]["v"]);
        }
        Value::Lambda { namespace, source } => {
            assert_eq!(json_text(namespace), recorded["ns"], "{what}: namespace");
            assert_eq!(json_text(source), recorded["src"], "{what}: source");
        }
        Value::Unary(code) | Value::Binary(code) | Value::Iterator(code) => {
            assert_eq!(Some(u64::from(*code)), recorded["c"].as_u64(), "{what}: code");
        }
        Value::Projection(parts) | Value::Composition(parts) => all(parts, &recorded["v"]),
        Value::Derived(_, function) => assert_reads_as(function, &recorded["v"], what),
        Value::Error(message) => assert_eq!(json_text(message), recorded["err"], "{what}"),
        atom => assert_atom(atom, &recorded["v"], what),
    }
}

fn assert_atom(atom: &Value, recorded: &Json, what: &str) {
    let float = |found: f64| match recorded.as_str() {
        Some("nan") => assert!(found.is_nan(), "{what}: {found}"),
        Some("inf") => assert_eq!(found, f64::INFINITY, "{what}"),
        Some("-inf") => assert_eq!(found, f64::NEG_INFINITY, "{what}"),
        _ => assert_eq!(Some(found), recorded.as_f64(), "{what}"),
    };
    match atom {
        Value::Bool(found) => assert_eq!(Json::from(*found), *recorded, "{what}"),
        Value::Guid(found) => assert_eq!(Json::from(hex(found)), *recorded, "{what}"),
        Value::Byte(found) => assert_eq!(Json::from(*found), *recorded, "{what}"),
        Value::Short(found) => assert_eq!(Json::from(*found), *recorded, "{what}"),
        Value::Int(found)
        | Value::Month(found)
        | Value::Date(found)
        | Value::Minute(found)
        | Value::Second(found)
        | Value::Time(found) => assert_eq!(Json::from(*found), *recorded, "{what}"),
        Value::Long(found) | Value::Timestamp(found) | Value::Timespan(found) => {
            assert_eq!(Json::from(*found), *recorded, "{what}");
        }
        Value::Real(found) => float(f64::from(*found)),
        Value::Float(found) | Value::Datetime(found) => float(*found),
        Value::Char(found) => assert_eq!(json_text(&[*found]), *recorded, "{what}"),
        Value::Symbol(found) => assert_eq!(json_text(found), *recorded, "{what}"),
        other => panic!("{what}: {other:?} is no atom"),
    }
}

/// The recordings represent every byte as the character of that number.
fn json_text(bytes: &[u8]) -> Json {
    bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()
}
