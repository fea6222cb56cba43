//! Syntax tree: output of the parser, input of the evaluator.

use columns::table::function::Iterator;
use columns::table::{Sym, Value};

/// An expression and its position in the text.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: u32,
    /// Levels of syntax including this one. Walking, copying and dropping a node recurse this deep.
    pub height: u16,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Const(Value),
    /// A name as written; [`crate::syntax::resolve`] replaces it.
    Name(Sym),
    Local(u16),
    /// A global by its full name.
    Global(Sym),
    /// A name in a qSQL phrase: a column if the table has one of that name, else the node (its meaning outside the phrase).
    Column(Sym, Box<Node>),
    /// Application, `None` for an elided argument.
    Apply(Box<Node>, Vec<Option<Node>>),
    Derive(Iterator, Box<Node>),
    Compose(Box<Node>, Box<Node>),
    Assign(Box<Assign>),
    List(Vec<Node>),
    /// `([k:…]c:…)`; without columns a dictionary.
    Table {
        keys: Vec<(Option<Sym>, Node)>,
        columns: Vec<(Option<Sym>, Node)>,
        keyed_only: bool,
    },
    Cond(Vec<Node>),
    If(Vec<Node>),
    While(Vec<Node>),
    Do(Vec<Node>),
    Seq(Vec<Node>),
    Return(Box<Node>),
    Signal(Box<Node>),
    /// `:[x;pattern;result;…;default]`.
    Match(Vec<Node>),
    /// `name::expression` as a whole text: a view's name, and its text without the name.
    View(Sym, std::sync::Arc<[u8]>),
    Query(Box<Query>),
}

/// `x:v`, `x op:v`, `x[i;…]op:v`, `x::v`.
#[derive(Clone, Debug)]
pub struct Assign {
    /// `Name`, after resolution `Local` or `Global`; or a pattern.
    pub target: Node,
    /// Assigns the global even inside a lambda.
    pub global: bool,
    pub indices: Vec<Option<Node>>,
    /// The function of `x op:v`.
    pub through: Option<Value>,
    pub value: Node,
    /// The target is a pattern: a list, a dictionary, anything in brackets.
    pub pattern: bool,
}

impl Assign {
    /// The name of `name:value`; `None` for every other assignment.
    pub fn plain_name(&self) -> Option<Sym> {
        let is_plain = !self.global && !self.pattern && self.indices.is_empty() && self.through.is_none();
        match self.target.kind {
            Kind::Name(name) if is_plain => Some(name),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Select,
    Exec,
    Update,
    Delete,
}

/// A qSQL template.
#[derive(Clone, Debug)]
pub struct Query {
    pub verb: Verb,
    pub distinct: bool,
    /// `select[n]`, `select[n;>col]`.
    pub limit: Option<Node>,
    /// Whether to sort descending, and what to sort by: a column, or an expression over the columns.
    pub order: Option<(bool, Node)>,
    pub columns: Vec<(Option<Sym>, Node)>,
    /// `None` without a `by` phrase.
    pub by: Option<Vec<(Option<Sym>, Node)>>,
    pub from: Node,
    pub filters: Vec<Node>,
}

impl Query {
    /// What `select[>x]` sorts by.
    pub fn order_node(&self) -> Option<&Node> {
        self.order.as_ref().map(|(_, node)| node)
    }
}

/// Code of a lambda or a whole text.
#[derive(Clone, Debug)]
pub struct Code {
    pub parameters: Vec<Sym>,
    /// Parameters first, then the other locals.
    pub locals: Vec<Sym>,
    /// Start of this code's text; node positions are relative to the same origin.
    pub start: u32,
    /// Written in a start-up file: its assignments are the owner's, also if a client calls it.
    pub is_owners: bool,
    pub body: Vec<Node>,
}

/// Maximum height of the nodes; 0 without nodes.
pub fn highest<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> u16 {
    nodes.into_iter().map(|node| node.height).max().unwrap_or(0)
}

/// Height of a node of this kind.
fn height_over(kind: &Kind) -> u16 {
    let fields = |fields: &[(Option<Sym>, Node)]| highest(fields.iter().map(|(_, node)| node));
    let below = match kind {
        Kind::Const(_) | Kind::Name(_) | Kind::Local(_) | Kind::Global(_) | Kind::View(..) => 0,
        Kind::Column(_, node) | Kind::Derive(_, node) | Kind::Return(node) | Kind::Signal(node) => node.height,
        Kind::Compose(f, g) => f.height.max(g.height),
        Kind::Apply(f, arguments) => f.height.max(highest(arguments.iter().flatten())),
        Kind::Assign(a) => highest(a.indices.iter().flatten().chain([&a.target, &a.value])),
        Kind::List(nodes)
        | Kind::Cond(nodes)
        | Kind::If(nodes)
        | Kind::While(nodes)
        | Kind::Do(nodes)
        | Kind::Seq(nodes)
        | Kind::Match(nodes) => highest(nodes),
        Kind::Table { keys, columns, .. } => fields(keys).max(fields(columns)),
        Kind::Query(q) => {
            let by = q.by.as_deref().map_or(0, fields);
            let rest = highest(q.filters.iter().chain(q.limit.as_ref()).chain(q.order_node()).chain([&q.from]));
            fields(&q.columns).max(by).max(rest)
        }
    };
    below.saturating_add(1)
}

impl Node {
    pub fn new(at: usize, kind: Kind) -> Node {
        Node { at: u32::try_from(at).unwrap_or(u32::MAX), height: height_over(&kind), kind }
    }

    pub fn constant(value: Value) -> Node {
        Node { at: 0, height: 1, kind: Kind::Const(value) }
    }
}
