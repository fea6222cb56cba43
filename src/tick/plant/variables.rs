//! The variables of `.u` at one moment, for an expression that runs beside the event loop.

use super::Plant;
use super::reader::Reader;
use super::values::{REJECTED, VARIABLES, put_quarantine, rejected};
use crate::net::Links;
use crate::q::from_view;
use crate::table::Value;
use crate::tick::quarantine::Refused;
use proto::{Endian, Limits, View, Writer};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a message that are searched for names of variables.
const SEARCHED_BYTES: usize = 4096;

/// A set of the variables in [`VARIABLES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names(u16);

const _: () = assert!(VARIABLES.len() <= 16);

impl Names {
    pub const NONE: Names = Names(0);

    /// Returns the variable with this full name; empty if there is none.
    pub fn of(name: &[u8]) -> Names {
        let at = VARIABLES.iter().position(|known| known.as_bytes() == name);
        Names(at.and_then(|at| 1u16.checked_shl(u32::try_from(at).ok()?)).unwrap_or(0))
    }

    /// Returns the variables that a message is likely to read, and those that cost nothing. Another one that it reads is fetched
    /// later, and the expression starts again.
    pub fn likely(message: &[u8]) -> Names {
        let text = message.get(..SEARCHED_BYTES).unwrap_or(message);
        let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
        // `` .u `i`L `` creates a dictionary of the whole namespace, without the quarantine.
        let is_whole =
            text.windows(3).any(|window| window.starts_with(b".u") && window != b".u.") || text.ends_with(b".u");
        let large = [
            (has(b"u.conns") || has(b"z.W"), &[".u.conns"][..]),
            (is_whole || has(b"u.w"), &[".u.w"][..]),
            (is_whole || has(b"asg"), &[".u.asg.tab", ".u.asg.tabV1"]),
            (has(b"quarantine"), &[".u.quarantine"]),
            (has(b"rejected"), &[".u.rejected"]),
        ];
        let all = large
            .iter()
            .flat_map(|(_, names)| *names)
            .fold(Names::NONE, |all, name| all.and(Names::of(name.as_bytes())));
        let named = large.iter().filter(|(is_named, _)| *is_named).flat_map(|(_, names)| *names);
        Names(!all.0).and(named.fold(Names::NONE, |all, name| all.and(Names::of(name.as_bytes()))))
    }

    pub fn and(self, other: Names) -> Names {
        Names(self.0 | other.0)
    }

    fn meets(self, other: Names) -> bool {
        self.0 & other.0 != 0
    }

    /// The tables of rejected updates.
    fn rejected() -> Names {
        REJECTED.iter().fold(Names::NONE, |all, name| all.and(Names::of(name)))
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn includes(self, at: usize) -> bool {
        u32::try_from(at).ok().and_then(|at| self.0.checked_shr(at)).is_some_and(|bits| bits & 1 == 1)
    }
}

/// Values of some variables at one moment.
#[derive(Debug, Default)]
pub struct Variables {
    included: Names,
    objects: Vec<u8>,
    /// Position of each variable's object; empty for one that does not exist: without a log there is no `.u.i`.
    places: [Range<usize>; VARIABLES.len()],
    /// Shared with the plant: encoding a full quarantine takes the event loop too long.
    quarantine: Vec<Arc<Refused>>,
}

impl Variables {
    /// Whether the values of these variables are known.
    pub fn include(&self, names: Names) -> bool {
        names.0 & !self.included.0 == 0
    }

    /// Returns the value of a variable; `None` if it does not exist or is not included.
    pub fn value(&self, name: &[u8]) -> Option<Value> {
        let at = VARIABLES.iter().position(|known| known.as_bytes() == name)?;
        let mut encoded = Vec::new();
        let object = match name {
            b".u.rejected" if self.included.includes(at) => return rejected(&self.quarantine),
            b".u.quarantine" if self.included.includes(at) => {
                let mut writer = Writer::new(&mut encoded);
                put_quarantine(&self.quarantine, &mut writer);
                writer.finish().ok()?;
                encoded.as_slice()
            }
            _ => self.objects.get(self.places.get(at)?.clone()).filter(|object| !object.is_empty())?,
        };
        let (view, _) = View::parse(object, Endian::Little, &Limits::default()).ok()?;
        from_view(&view).ok()
    }

    /// Whether `names` have the same values at both moments.
    pub fn agree(&self, other: &Variables, names: Names) -> bool {
        let object = |of: &Variables, at: usize| {
            of.places.get(at).and_then(|place| of.objects.get(place.clone())).map(<[u8]>::to_vec)
        };
        let same = |at: usize| !names.includes(at) || object(self, at) == object(other, at);
        let kept = || {
            let pairs = self.quarantine.iter().zip(&other.quarantine);
            self.quarantine.len() == other.quarantine.len() && pairs.into_iter().all(|(one, two)| Arc::ptr_eq(one, two))
        };
        (0..VARIABLES.len()).all(same) && (!names.meets(Names::rejected()) || kept())
    }
}

impl Plant {
    /// Returns the values of some variables now, as far as `reader` may see them: rejected updates only of tables that it may query. The
    /// caller has settled.
    pub fn variables(&self, included: Names, reader: Option<Reader<'_>>, ctl: &dyn Links) -> Variables {
        let mut objects = Vec::with_capacity(512);
        let mut variables = Variables { included, ..Variables::default() };
        for (at, (name, place)) in VARIABLES.iter().zip(&mut variables.places).enumerate() {
            if !included.includes(at) || REJECTED.contains(&name.as_bytes()) {
                continue;
            }
            let start = objects.len();
            let mut writer = Writer::new(&mut objects);
            let is_there = self.put_variable(name.as_bytes(), reader, ctl, &mut writer) && writer.finish().is_ok();
            if !is_there {
                objects.truncate(start);
            }
            *place = start..objects.len();
        }
        if included.meets(Names::rejected()) {
            let may_read = |refused: &Refused| reader.is_none_or(|reader| reader.grants.reads_all_of(&refused.table));
            let readable = self.quarantine.iter().filter(|refused| may_read(refused));
            variables.quarantine = readable.map(Arc::clone).collect();
        }
        variables.objects = objects;
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_the_large_variables_that_it_names() {
        let large = |text: &str| {
            let names = Names::likely(text.as_bytes());
            [".u.w", ".u.asg.tab", ".u.quarantine"]
                .map(|name| !Names(names.0 & Names::of(name.as_bytes()).0).is_empty())
        };
        assert_eq!(large("1+1"), [false; 3]);
        assert_eq!(large(".u.i"), [false; 3]);
        assert_eq!(large("count .u.w`trade"), [true, false, false]);
        assert_eq!(large("select from .u.asg.tab"), [false, true, false]);
        assert_eq!(large("(.u.sub[`;`];.u `i`L)"), [true, true, false]);
        assert_eq!(large("key `.u"), [true, true, false]);
        assert_eq!(large("count .u.quarantine"), [false, false, true]);
        assert!(Names::likely(b"count .u.rejected").meets(Names::of(b".u.rejected")));
        assert!(!Names::likely(b"1+1").meets(Names::rejected()));
        let conns = |text: &str| !Names(Names::likely(text.as_bytes()).0 & Names::of(b".u.conns").0).is_empty();
        assert_eq!(["select from .u.conns", ".u `i`L"].map(conns), [true, false]);
        assert!(!Names(Names::likely(b"").0 & Names::of(b".u.i").0).is_empty());
    }
}
