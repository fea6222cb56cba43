//! What a connection may do. Pure.

use super::identity::Identity;
use super::quota::Quota;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a call needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Publish,
    Subscribe,
    Query,
    Node,
    Operator,
}

impl Role {
    pub const ALL: [Role; 5] = [Role::Publish, Role::Subscribe, Role::Query, Role::Node, Role::Operator];

    /// Name in the users file, and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Publish => "publish",
            Role::Subscribe => "subscribe",
            Role::Query => "query",
            Role::Node => "node",
            Role::Operator => "operator",
        }
    }
}

/// All names, or those of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    All,
    Only(BTreeSet<Vec<u8>>),
}

impl Names {
    pub fn has(&self, name: &[u8]) -> bool {
        match self {
            Names::All => true,
            Names::Only(names) => names.contains(name),
        }
    }
}

/// Rows of a table that a user may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    All,
    /// Where-clauses in q; a row is readable if one of them holds.
    Where(BTreeSet<String>),
}

/// Sets that have a union: a user has what any of the user's roles gives.
pub trait Union {
    fn unite(&mut self, other: &Self);
}

impl Union for Names {
    fn unite(&mut self, other: &Names) {
        match (&mut *self, other) {
            (Names::Only(own), Names::Only(other)) => own.extend(other.iter().cloned()),
            (_, Names::All) => *self = Names::All,
            (Names::All, _) => {}
        }
    }
}

impl Union for Rows {
    fn unite(&mut self, other: &Rows) {
        match (&mut *self, other) {
            (Rows::Where(own), Rows::Where(other)) => own.extend(other.iter().cloned()),
            (_, Rows::All) => *self = Rows::All,
            (Rows::All, _) => {}
        }
    }
}

/// A permission that differs between tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerTable<T> {
    /// For every table, also those that are created later.
    every: Option<T>,
    named: BTreeMap<Vec<u8>, T>,
}

impl<T> Default for PerTable<T> {
    fn default() -> PerTable<T> {
        PerTable { every: None, named: BTreeMap::new() }
    }
}

impl<T: Union + Clone> PerTable<T> {
    /// The same permission for every table.
    pub fn every(permission: T) -> PerTable<T> {
        PerTable { every: Some(permission), named: BTreeMap::new() }
    }

    /// Adds a permission for one table.
    pub fn add(&mut self, table: Vec<u8>, permission: T) {
        match self.named.get_mut(&table) {
            Some(own) => own.unite(&permission),
            None => drop(self.named.insert(table, permission)),
        }
    }

    /// Returns the permission for a table, `None` without one.
    pub fn of(&self, table: &[u8]) -> Option<T> {
        match (&self.every, self.named.get(table)) {
            (Some(every), Some(named)) => {
                let mut both = every.clone();
                both.unite(named);
                Some(both)
            }
            (every, named) => every.as_ref().or(named).cloned(),
        }
    }

    fn unite(&mut self, other: &PerTable<T>) {
        match (&mut self.every, &other.every) {
            (Some(own), Some(other)) => own.unite(other),
            (own @ None, Some(other)) => *own = Some(other.clone()),
            (_, None) => {}
        }
        other.named.iter().for_each(|(table, permission)| self.add(table.clone(), permission.clone()));
    }

    fn is_empty(&self) -> bool {
        self.every.is_none() && self.named.is_empty()
    }
}

/// What a connection may do: the union of its user's roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Tables that it may publish.
    pub publish: Option<Names>,
    /// Tables that it may subscribe to, with their symbols.
    pub subscribe: PerTable<Names>,
    /// Tables that it may query, with their rows.
    pub query: PerTable<Rows>,
    /// Queues that it may join.
    pub node: Option<Names>,
    pub operator: bool,
    /// A users file grants these roles by name, so `--allow` and `-b`, which hold for all clients, do not limit them further.
    pub by_name: bool,
    /// The connection has proved that it is a node, which is no matter of its user.
    pub proved: bool,
    /// How much of the process it may use.
    pub quota: Quota,
    /// The user as an identity service knows it; `None` for a user of the file.
    pub identity: Option<Arc<Identity>>,
}

impl Grants {
    /// Every role: a caller of a process without users.
    pub fn everything() -> Grants {
        let mut grants = Grants { node: Some(Names::All), operator: true, ..Grants::client() };
        grants.by_name = false;
        grants
    }

    /// What a user of kdb+'s users file may do: publish, subscribe and query.
    pub fn client() -> Grants {
        Grants {
            publish: Some(Names::All),
            subscribe: PerTable::every(Names::All),
            query: PerTable::every(Rows::All),
            ..Grants::default()
        }
    }

    /// One role without restrictions.
    pub fn only(role: Role) -> Grants {
        let everything = Grants::everything();
        let mut grants = Grants::default();
        match role {
            Role::Publish => grants.publish = everything.publish,
            Role::Subscribe => grants.subscribe = everything.subscribe,
            Role::Query => grants.query = everything.query,
            Role::Node => grants.node = everything.node,
            Role::Operator => grants.operator = true,
        }
        grants
    }

    /// Adds the roles of `other`.
    pub fn unite(&mut self, other: &Grants) {
        let join = |own: &mut Option<Names>, other: &Option<Names>| match (own.as_mut(), other) {
            (Some(own), Some(other)) => own.unite(other),
            (None, Some(_)) => own.clone_from(other),
            (_, None) => {}
        };
        join(&mut self.publish, &other.publish);
        join(&mut self.node, &other.node);
        self.subscribe.unite(&other.subscribe);
        self.query.unite(&other.query);
        self.operator |= other.operator;
        self.by_name |= other.by_name;
        self.proved |= other.proved;
        self.quota.unite(&other.quota);
    }

    /// Adds the role of a node that has proved itself.
    pub fn prove(&mut self) {
        self.node = Some(Names::All);
        self.proved = true;
    }

    /// Whether the role is granted, for any table or queue at all.
    pub fn has(&self, role: Role) -> bool {
        match role {
            Role::Publish => self.publish.is_some(),
            Role::Subscribe => !self.subscribe.is_empty(),
            Role::Query => !self.query.is_empty(),
            Role::Node => self.node.is_some(),
            Role::Operator => self.operator,
        }
    }

    /// Whether the user may query all rows of a table. A rejected update shows to nobody else: its rows are of no selection.
    pub fn reads_all_of(&self, table: &[u8]) -> bool {
        self.query.of(table) == Some(Rows::All)
    }

    /// Whether every row of every table may be queried.
    pub fn reads_everything(&self) -> bool {
        self.query.every == Some(Rows::All)
    }

    /// Whether updates of this table may be published.
    pub fn publishes(&self, table: &[u8]) -> bool {
        self.publish.as_ref().is_some_and(|tables| tables.has(table))
    }

    /// Whether the queue may be joined.
    pub fn joins(&self, queue: &[u8]) -> bool {
        self.node.as_ref().is_some_and(|queues| queues.has(queue))
    }
}
