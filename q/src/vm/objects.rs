//! Lists of a run, and which register may change one in place.
//!
//! A register holds only the index of a list, so several may refer to the same one. The owner of a list is the register that holds its only
//! reference, counted from 1 across all frames: that one changes the list in place, any other changes a copy. 0 is no register.

use crate::runtime::scalar::{Scalar, is_object};
use columns::table::Value;

/// Most lists that one run of the VM may create. A run frees its lists only when it ends.
const MAX_OBJECTS: usize = 256;

/// Stores a value in the register numbered `own` across all frames; false if there are too many objects.
#[cold]
pub(super) fn keep(
    objects: &mut Vec<Value>,
    owners: &mut Vec<u32>,
    register: &mut Scalar,
    own: u32,
    value: Value,
) -> bool {
    if let Some(scalar) = Scalar::of(&value) {
        *register = scalar;
        return true;
    }
    if !is_object(&value) {
        return false;
    }
    if let Scalar::Object(place) = *register
        && owners.get(place as usize) == Some(&own)
        && let Some(object) = objects.get_mut(place as usize)
    {
        *object = value;
        return true;
    }
    match added(objects, owners, own, value) {
        Some(place) => {
            *register = Scalar::Object(place as u32);
            true
        }
        None => false,
    }
}

/// Adds an object and returns its index; `None` if there are too many.
fn added(objects: &mut Vec<Value>, owners: &mut Vec<u32>, own: u32, value: Value) -> Option<usize> {
    if objects.len() >= MAX_OBJECTS {
        return None;
    }
    objects.push(value);
    owners.resize(objects.len() - 1, 0);
    owners.push(own);
    Some(objects.len() - 1)
}

/// Returns the index of an object that a register may modify; copies it unless the register owns it.
#[inline]
pub(super) fn owned(objects: &mut Vec<Value>, owners: &mut Vec<u32>, register: Scalar, own: u32) -> Option<usize> {
    let Scalar::Object(place) = register else { return None };
    if owners.get(place as usize) == Some(&own) {
        return Some(place as usize);
    }
    let value = objects.get(place as usize)?.clone();
    added(objects, owners, own, value)
}

/// Marks an object as shared by more than one register.
#[inline]
pub(super) fn share(owners: &mut [u32], value: Scalar) {
    if let Scalar::Object(place) = value
        && let Some(owner) = owners.get_mut(place as usize)
    {
        *owner = 0;
    }
}
