//! Pattern assignment: `(a;b):1 2`, `([x;y]):d`, `(1;a):…`, with filters (`a:`f` for a type, `a:f` for a function).

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::frame::{Flow, Frame, Walk};
use crate::syntax::ast::{Assign, Kind, Node};
use crate::syntax::literal::letter_type;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::amend::Amend;
use crate::verbs::matches::same;
use crate::verbs::{amend, find, index};
use columns::table::symbol::text;
use columns::table::{Sym, Value};

fn no_match() -> Flow {
    QError::named("match").into()
}

/// Assignments collected during a match and made only if the whole pattern matches.
#[derive(Default)]
struct Found<'a> {
    names: Vec<(&'a Node, Value)>,
    /// Indexed assignments: name, indices, item.
    items: Vec<(&'a Node, &'a [Option<Node>], Value)>,
}

impl Context<'_> {
    /// Matches a value against `pattern` and assigns its names, all or none. Returns the value as modified by filters.
    pub(super) fn bind(&mut self, pattern: &Node, value: Value, frame: &mut Frame) -> Walk {
        let mut found = Found::default();
        let value = self.take_apart(pattern, value, frame, &mut found)?;
        for (name, held) in found.names {
            self.store(name, held, frame)?;
            self.was_assigned(name, &[])?;
        }
        for (name, indices, held) in found.items {
            self.bind_at(name, indices, held, frame)?;
        }
        Ok(value)
    }

    fn take_apart<'a>(&mut self, pattern: &'a Node, value: Value, frame: &mut Frame, found: &mut Found<'a>) -> Walk {
        self.enter()?;
        match &pattern.kind {
            Kind::Const(Value::Null) => Ok(value),
            Kind::Const(expected) if same(expected, &value)? => Ok(value),
            Kind::Const(_) => Err(no_match()),
            Kind::Local(_) | Kind::Global(_) | Kind::Name(_) => {
                found.names.push((pattern, value.clone()));
                Ok(value)
            }
            Kind::List(items) => {
                let items: Vec<Option<&Node>> = items.iter().map(Some).collect();
                self.bind_items(&items, value, frame, found)
            }
            Kind::Return(filter) => {
                let filter = self.node(filter, frame)?;
                Ok(self.filter(&filter, value)?)
            }
            Kind::Assign(inner) => self.bind_filtered(inner, value, frame, found),
            Kind::Table { keys, columns, keyed_only } => {
                let fields: Vec<&(Option<Sym>, Node)> = keys.iter().chain(columns).collect();
                self.bind_fields(&fields, *keyed_only, value, frame, found)
            }
            Kind::Apply(f, arguments) => match &f.kind {
                Kind::Const(f) if prims::name_of(f) == Some("enlist") => {
                    let items: Vec<Option<&Node>> = arguments.iter().map(Option::as_ref).collect();
                    self.bind_items(&items, value, frame, found)
                }
                Kind::Const(f) if prims::name_of(f) == Some("flip") => {
                    let [Some(inner)] = &arguments[..] else { return Err(no_match()) };
                    let turned = crate::verbs::shape::flip(self, value.clone())?;
                    self.take_apart(inner, turned, frame, found)?;
                    Ok(value)
                }
                Kind::Const(f) if prims::is_glyph(f, "!") => {
                    let [keys, values] = &arguments[..] else { return Err(no_match()) };
                    self.bind_dict(keys.as_ref(), values.as_ref(), value, frame, found)
                }
                Kind::Local(_) | Kind::Global(_) | Kind::Name(_) => {
                    found.items.push((f, arguments, value.clone()));
                    Ok(value)
                }
                _ => Err(no_match()),
            },
            Kind::Seq(body) => match &body[..] {
                [] => Ok(value),
                [inner] => self.take_apart(inner, value, frame, found),
                _ => Err(no_match()),
            },
            _ => Err(no_match()),
        }
    }

    /// `(…;…)`: as many items as names.
    fn bind_items<'a>(
        &mut self,
        items: &[Option<&'a Node>],
        value: Value,
        frame: &mut Frame,
        found: &mut Found<'a>,
    ) -> Walk {
        if !value.is_scalar() && value.count() != items.len() {
            return Err(QError::named("length").into());
        }
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            out.push(match item {
                Some(node) => self.take_apart(node, value.at(i), frame, found)?,
                None => value.at(i),
            });
        }
        Ok(if value.is_scalar() { value } else { Value::collapse(out) })
    }

    /// `name:filter` and `(…):filter`.
    fn bind_filtered<'a>(&mut self, inner: &'a Assign, value: Value, frame: &mut Frame, found: &mut Found<'a>) -> Walk {
        let filter = self.node(&inner.value, frame)?;
        let value = self.filter(&filter, value)?;
        self.take_apart(&inner.target, value, frame, found)
    }

    /// `name[i]` as a target.
    fn bind_at(&mut self, name: &Node, indices: &[Option<Node>], value: Value, frame: &mut Frame) -> Walk {
        let mut path = Vec::with_capacity(indices.len());
        for index in indices {
            path.push(match index {
                Some(node) => self.node(node, frame)?,
                None => Value::Null,
            });
        }
        let old = self.node(name, frame)?;
        let new = amend::deep(self, old, &path, &Amend { function: None, value: Some(&value) })?;
        self.store(name, new, frame)?;
        self.was_assigned(name, &path)?;
        Ok(value)
    }

    /// `keys!values`: constant keys are looked up; a pattern of keys matches all keys.
    fn bind_dict<'a>(
        &mut self,
        keys: Option<&'a Node>,
        values: Option<&'a Node>,
        value: Value,
        frame: &mut Frame,
        found: &mut Found<'a>,
    ) -> Walk {
        let Value::Dict(d) = &value else { return Err(QError::named("type").into()) };
        let held = match keys.map(|k| &k.kind) {
            Some(Kind::Const(expected)) => {
                let expected = if expected.is_scalar() { expected.clone().enlist() } else { expected.clone() };
                for key in expected.items() {
                    find::position(&d.keys, &key)?.ok_or_else(no_match)?;
                }
                index::one(self, &value, &expected)?
            }
            Some(_) => {
                if let Some(keys) = keys {
                    self.take_apart(keys, d.keys.clone(), frame, found)?;
                }
                d.values.clone()
            }
            None => d.values.clone(),
        };
        if let Some(values) = values {
            self.take_apart(values, held, frame, found)?;
        }
        Ok(value)
    }

    /// `([k:a]b:c)`: matches dictionary items or table columns by name.
    fn bind_fields<'a>(
        &mut self,
        fields: &[&'a (Option<Sym>, Node)],
        dictionary: bool,
        value: Value,
        frame: &mut Frame,
        found: &mut Found<'a>,
    ) -> Walk {
        let source = match &value {
            Value::Dict(d) if d.keyed().is_some() && !dictionary => crate::verbs::rows::unkey(&value)?,
            Value::Dict(_) | Value::Table(_) => value.clone(),
            _ => return Err(QError::named("type").into()),
        };
        let mut changed = value.clone();
        for (name, node) in fields {
            let name = name.ok_or_else(no_match)?;
            let held = match &source {
                Value::Dict(d) => {
                    let at = find::position(&d.keys, &Value::Sym(name))?.ok_or_else(no_match)?;
                    d.values.at(at)
                }
                Value::Table(t) => t.column(name).cloned().ok_or_else(no_match)?.into(),
                _ => return Err(no_match()),
            };
            let taken = self.take_apart(node, held.clone(), frame, found)?;
            if !same(&taken, &held)? {
                changed = amend::set(self, changed, &Value::Sym(name), taken)?;
            }
        }
        Ok(changed)
    }

    /// Applies a filter: a type letter (upper case for a list), or a function of the value.
    fn filter(&mut self, filter: &Value, value: Value) -> Result<Value, QError> {
        let Value::Sym(name) = filter else { return self.call1(filter, value) };
        let [letter] = text(*name) else {
            let f = self.global(*name)?;
            return self.call1(&f, value);
        };
        let number = letter_type(letter.to_ascii_lowercase()).ok_or(QError::named("type"))?;
        let expected = if letter.is_ascii_uppercase() { number } else { -number };
        if value.type_number() == expected { Ok(value) } else { Err(QError::named("type")) }
    }

    /// `:[x;pattern;result;…;default]`: evaluates the result of the first pattern that matches.
    pub(super) fn match_parts(&mut self, parts: &[Node], frame: &mut Frame) -> Walk {
        let Some((subject, mut rest)) = parts.split_first() else { return Ok(Value::Null) };
        let value = self.node(subject, frame)?;
        loop {
            match rest {
                [] => return Ok(Value::Null),
                [otherwise] => return self.node(otherwise, frame),
                [pattern, then, more @ ..] => {
                    match self.bind(pattern, value.clone(), frame) {
                        Ok(_) => return self.node(then, frame),
                        Err(Flow::Error(e)) if matches!(&e.name[..], b"match" | b"type" | b"length") => {}
                        Err(other) => return Err(other),
                    }
                    rest = more;
                }
            }
        }
    }
}
