//! Strategies for any value that can be serialised.

use elastick_proto::{Items, Value};
use proptest::collection::vec;
use proptest::prelude::*;

fn symbol() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=u8::MAX, 0..12)
}

/// Any bits, so that nulls, infinities and every NaN occur.
fn float() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits)
}

fn real() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits)
}

fn items(count: usize) -> impl Strategy<Value = Items> {
    prop_oneof![
        vec(any::<bool>(), count).prop_map(Items::Bool),
        vec(any::<[u8; 16]>(), count).prop_map(Items::Guid),
        vec(any::<u8>(), count).prop_map(Items::Byte),
        vec(any::<i16>(), count).prop_map(Items::Short),
        vec(any::<i32>(), count).prop_map(Items::Int),
        vec(any::<i64>(), count).prop_map(Items::Long),
        vec(real(), count).prop_map(Items::Real),
        vec(float(), count).prop_map(Items::Float),
        vec(any::<u8>(), count).prop_map(Items::Char),
        vec(symbol(), count).prop_map(Items::Symbol),
        vec(any::<i64>(), count).prop_map(Items::Timestamp),
        vec(any::<i32>(), count).prop_map(Items::Month),
        vec(any::<i32>(), count).prop_map(Items::Date),
        vec(float(), count).prop_map(Items::Datetime),
        vec(any::<i64>(), count).prop_map(Items::Timespan),
        vec(any::<i32>(), count).prop_map(Items::Minute),
        vec(any::<i32>(), count).prop_map(Items::Second),
        vec(any::<i32>(), count).prop_map(Items::Time),
    ]
}

fn vector(count: usize) -> impl Strategy<Value = Value> {
    (0..=4u8, items(count)).prop_map(|(attr, items)| Value::Vector { attr, items })
}

fn atom() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => items(1).prop_map(|items| items.item(0).expect("one item")),
        1 => any::<u8>().prop_map(Value::Unary),
        1 => any::<u8>().prop_map(Value::Binary),
        1 => (0..6u8).prop_map(Value::Iterator),
        1 => (symbol(), vec(any::<u8>(), 0..20))
            .prop_map(|(namespace, source)| Value::Lambda { namespace, source }),
    ]
}

/// A vector, list or table of `count` items.
fn column(count: usize, inner: impl Strategy<Value = Value> + Clone + 'static) -> BoxedStrategy<Value> {
    let list = (0..=1u8, vec(inner, count)).prop_map(|(attr, items)| Value::List { attr, items });
    prop_oneof![3 => vector(count), 1 => list].boxed()
}

fn table(rows: usize, inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = Value> {
    let columns = vec((symbol(), column(rows, inner)), 1..4);
    (0..=1u8, columns).prop_map(|(attr, columns)| Value::table(columns).with_attr(attr))
}

/// Keys or values of a dictionary with `count` entries.
fn entries(count: usize, inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = Value> {
    prop_oneof![3 => column(count, inner.clone()), 1 => table(count, inner)]
}

/// Any value but an error, which is only a whole message.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![2 => atom(), 3 => (0..20usize).prop_flat_map(vector)];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let inner = inner.boxed();
        let (for_dict, for_table) = (inner.clone(), inner.clone());
        prop_oneof![
            3 => vec(inner.clone(), 0..6).prop_map(Value::list),
            2 => (0..5usize, any::<bool>()).prop_flat_map(move |(count, sorted)| {
                (entries(count, for_dict.clone()), entries(count, for_dict.clone())).prop_map(move |(keys, values)| {
                    Value::Dict { sorted, keys: Box::new(keys), values: Box::new(values) }
                })
            }),
            2 => (0..5usize).prop_flat_map(move |rows| table(rows, for_table.clone())),
            1 => (0..=1u8, vec(symbol(), 0..4), symbol()).prop_map(|(attr, names, place)| Value::TableByName { attr, names, place }),
            1 => vec(inner.clone(), 1..4).prop_map(Value::Projection),
            1 => vec(inner.clone(), 1..4).prop_map(Value::Composition),
            1 => (106..=111i8, inner).prop_map(|(ty, function)| Value::Derived(ty, Box::new(function))),
        ]
    })
}
