//! Client of the running cluster: queries tickerplant, fleet and nodes over kdb+ IPC.

use super::proof::{Held, windows_of};
use super::queue_table::{self, Row};
use super::users::DemoUsers;
use crate::cli::CliError;
use crate::config::Address;
use crate::fleet::local::Local;
use crate::fleet::{Description, Fleet, Identity};
use crate::monitor::view::NodeState;
use crate::net::Client;
use proto::{Limits, Value};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a status query to a node.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

pub const GROUP: &str = "rdb";

/// State of the cluster at one moment.
pub struct ClusterState {
    pub tip: u64,
    pub durable: Option<u64>,
    pub rows: Vec<Row>,
    /// `.u.asg.tab` as received.
    pub table: Value,
    pub fleet: Description,
}

/// Connections of the demo to tickerplant, fleet and nodes.
pub struct Cluster {
    users: DemoUsers,
    tickerplant: Client,
    fleet: Local,
    /// Connections to the nodes, by port.
    nodes: HashMap<u16, Client>,
    /// Whether a poll queries the nodes too, which keeps them awake.
    queries_nodes: bool,
}

impl Cluster {
    /// Connects to tickerplant and fleet; retries while the tickerplant starts.
    pub fn connect(
        users: DemoUsers,
        tickerplant: u16,
        fleet: u16,
        mut running: impl FnMut() -> Result<(), CliError>,
    ) -> Result<Cluster, CliError> {
        let identity = Identity { instance: "demo".to_string(), group: GROUP.to_string() };
        let fleet = Local::new(users.address(fleet), identity);
        let tickerplant = connect(&users.address(tickerplant), &mut running)?;
        Ok(Cluster { users, tickerplant, fleet, nodes: HashMap::new(), queries_nodes: true })
    }

    pub fn users(&self) -> &DemoUsers {
        &self.users
    }

    /// Connects to another tickerplant of the same log.
    ///
    /// # Errors
    /// The connection's.
    pub fn change_over(&mut self, tickerplant: u16) -> Result<(), CliError> {
        self.tickerplant = connect(&self.users.address(tickerplant), &mut || Ok(()))?;
        Ok(())
    }

    /// Lets polls query the nodes, or leave them alone.
    pub fn query_nodes(&mut self, is: bool) {
        self.queries_nodes = is;
    }

    /// Calls for nodes with `.u.asg.wake[]`.
    pub fn wake(&mut self) -> Result<Value, CliError> {
        self.query(".u.asg.wake[]")
    }

    /// Polls tickerplant, fleet and nodes.
    pub fn poll(&mut self) -> Result<ClusterState, CliError> {
        let answer = self.query("(.u.j;.u.stats;.u.asg.tab)")?;
        let index = |value: Option<Value>| value?.as_long().and_then(|n| u64::try_from(n).ok());
        let table = answer.item(2).ok_or_else(|| CliError::Failed("the tickerplant has no .u.asg.tab".to_string()))?;
        let mut rows = queue_table::rows(&table)
            .ok_or_else(|| CliError::Failed("the tickerplant's .u.asg.tab is not a table".to_string()))?;
        rows.iter_mut().for_each(|row| self.refresh(row));
        Ok(ClusterState {
            tip: index(answer.item(0))
                .ok_or_else(|| CliError::Failed("the tickerplant's .u.j is not a number".to_string()))?,
            durable: index(answer.item(1).and_then(|stats| stats.lookup("durable"))),
            rows,
            table,
            fleet: self.fleet.describe().map_err(CliError::failed)?,
        })
    }

    /// Updates a row with the node's own statistics, because the queue's table has them only once a second.
    fn refresh(&mut self, row: &mut Row) {
        let Some(port) = row.port.filter(|_| self.queries_nodes && row.state != NodeState::Away) else { return };
        let client = match self.nodes.remove(&port) {
            Some(client) => Some(client),
            None => Client::connect(&self.users.address(port), STATUS_TIMEOUT, Limits::default()).ok(),
        };
        // A node that is ending or busy keeps the values of the queue's table.
        let Some(mut client) = client else { return };
        let Ok(stats) = client.query(".rdb.stats") else { return };
        self.nodes.insert(port, client);
        let index = |name: &str| stats.lookup(name)?.as_long().and_then(|n| u64::try_from(n).ok());
        let memory = stats.lookup("memory").and_then(|memory| memory.as_float()).filter(|percent| !percent.is_nan());
        row.memory_percent = memory.or(row.memory_percent);
        row.bytes = index("used").unwrap_or(row.bytes);
        if let Some(Value::Timespan(ns)) = stats.lookup("catchUp") {
            row.catch_up_ns = Some(ns).filter(|ns| *ns >= 0);
        }
        row.rows = index("rows").unwrap_or(row.rows);
        if row.state == NodeState::Live {
            row.next = index("nextI").or(row.next);
        }
    }

    /// Returns the path of the tickerplant's log.
    pub fn log(&mut self) -> Result<PathBuf, CliError> {
        let answer = self.query(".u.L")?;
        let path = answer.as_symbol().map(|path| String::from_utf8_lossy(path).trim_start_matches(':').to_string());
        path.map(PathBuf::from).ok_or_else(|| CliError::Failed("the tickerplant keeps no log".to_string()))
    }

    /// Returns the names of the tables.
    pub fn tables(&mut self) -> Result<Vec<String>, CliError> {
        let answer = self.query(".u.t")?;
        let names = answer.as_symbols().unwrap_or_default();
        Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Ends the day with `.u.endofday[]`.
    pub fn end_of_day(&mut self) -> Result<(), CliError> {
        self.query(".u.endofday[]").map(drop)
    }

    /// Queries a node for its windows and for the row counts of its tables.
    pub fn ask_node(&self, node: &str, port: u16, tables: &[String]) -> Result<NodeAnswer, CliError> {
        let failed = |what: &str| CliError::Failed(format!("node {node} at port {port}: {what}"));
        let mut client = Client::connect(&self.users.address(port), QUERY_TIMEOUT, Limits::default())
            .map_err(|error| failed(&error.to_string()))?;
        let mut query = |expression: &str| {
            client.query(expression).map_err(|error| failed(&format!("the reply to {expression}: {error}")))
        };
        let answer = query(".rdb.windows")?;
        let windows = windows_of(node, &answer).ok_or_else(|| failed(".rdb.windows is not a table of windows"))?;
        let mut counted_rows = 0u64;
        for table in tables {
            let count = query(&format!("count {table}"))?.as_long().and_then(|count| u64::try_from(count).ok());
            counted_rows = counted_rows.saturating_add(count.ok_or_else(|| failed("a count is not a number"))?);
        }
        Ok(NodeAnswer { windows, counted_rows })
    }

    fn query(&mut self, expression: &str) -> Result<Value, CliError> {
        let failed = |error| CliError::Failed(format!("the tickerplant's reply to {expression}: {error}"));
        self.tickerplant.query(expression).map_err(failed)
    }
}

/// Windows of a node, and the number of rows that q counts in its tables.
pub struct NodeAnswer {
    pub windows: Vec<Held>,
    pub counted_rows: u64,
}

fn connect(address: &Address, running: &mut dyn FnMut() -> Result<(), CliError>) -> Result<Client, CliError> {
    let by = Instant::now().checked_add(QUERY_TIMEOUT);
    loop {
        match Client::connect(address, QUERY_TIMEOUT, Limits::default()) {
            Ok(client) => return Ok(client),
            Err(error) if by.is_none_or(|by| Instant::now() >= by) => return Err(CliError::failed(error)),
            Err(_) => running()?,
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
