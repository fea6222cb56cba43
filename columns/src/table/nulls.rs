//! Columns of typed nulls, for rows logged before the column was added to the table.

use proto::{Head, types};

/// Appends a serialised vector of `rows` nulls of type `ty`. The null of a general list is an empty list.
pub fn append_nulls(ty: i8, rows: usize, out: &mut Vec<u8>) {
    let head = Head::saturating(ty, rows);
    head.write(out);
    let item: &[u8] = match ty {
        types::BOOL | types::BYTE | types::SYMBOL => &[0],
        types::GUID => &types::NULL_GUID,
        types::SHORT => &types::NULL_SHORT.to_le_bytes(),
        types::LONG | types::TIMESTAMP | types::TIMESPAN => &types::NULL_LONG.to_le_bytes(),
        types::REAL => &types::NULL_REAL.to_le_bytes(),
        types::FLOAT | types::DATETIME => &types::NULL_FLOAT.to_le_bytes(),
        types::CHAR => &[types::NULL_CHAR],
        types::MONTH | types::DATE | types::MINUTE | types::SECOND | types::TIME | types::INT => {
            &types::NULL_INT.to_le_bytes()
        }
        _ => &Head::saturating(types::LIST, 0).to_bytes(),
    };
    (0..head.count()).for_each(|_| out.extend_from_slice(item));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Endian, Limits, View};

    #[test]
    fn every_type_has_a_vector_of_nulls() {
        for ty in [0, 1, 2].into_iter().chain(4..=19) {
            let mut bytes = Vec::new();
            append_nulls(ty, 3, &mut bytes);
            let (view, used) = View::parse(&bytes, Endian::Little, &Limits::default()).expect("an object");
            assert_eq!((view.type_code(), view.count(), used), (ty, 3, bytes.len()), "type {ty}");
        }
    }
}
