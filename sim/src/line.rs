//! Connections: in-order bytes in each direction that may be late, stalled or lost; each end learns of a broken connection at its own time.

use super::world::{Client, MS, SECOND, World, WorldEvent};
use bytes::Bytes;
use elastick::access::Grants;
use elastick::net::{ConnId, Peer};
use std::collections::VecDeque;
use std::sync::Arc;

/// Longest latency of a message that nothing delays.
const MAX_LATENCY_NS: u64 = 2 * MS;

/// A packet to a client.
#[derive(Clone, Debug)]
pub enum Packet {
    Data(Bytes),
    /// The server has closed the connection.
    End,
}

/// A connection between a client and the tickerplant.
#[derive(Debug)]
pub struct Line {
    pub client: Client,
    pub conn: Option<ConnId>,
    /// Number of the tickerplant's run that the connection belongs to.
    pub run: u32,
    up: VecDeque<Bytes>,
    down: VecDeque<Packet>,
    pub up_at_ns: u64,
    pub down_at_ns: u64,
    pub up_stalled_until_ns: u64,
    pub down_stalled_until_ns: u64,
    /// Broken: nothing passes any more, whatever the ends assume.
    pub cut: bool,
    pub client_knows: bool,
    pub server_knows: bool,
    /// Bytes that a slow client reads in a millisecond.
    pub slow_bytes: Option<u64>,
}

impl Line {
    /// Postpones deliveries when idle time is skipped.
    pub fn skip(&mut self, ns: u64) {
        self.up_at_ns = self.up_at_ns.saturating_add(ns);
        self.down_at_ns = self.down_at_ns.saturating_add(ns);
    }

    /// Returns whether a direction is stalled, or a packet to a slow reader is still on its way.
    pub fn is_held_up(&self, now_ns: u64) -> bool {
        self.up_stalled_until_ns.max(self.down_stalled_until_ns) > now_ns
            || self.up_at_ns.max(self.down_at_ns) > now_ns.saturating_add(MAX_LATENCY_NS)
    }
}

impl World {
    fn latency_ns(&mut self) -> u64 {
        let usual_ns = self.between(50_000, MAX_LATENCY_NS);
        match self.now_ns < self.slow_net_until_ns {
            true => usual_ns.saturating_add(self.rng.below(800 * MS)),
            false => usual_ns,
        }
    }

    /// A client opens a connection.
    pub fn connects(&mut self, client: Client) {
        if !self.wants_line(client) {
            return;
        }
        let number = self.next_line;
        self.next_line = self.next_line.saturating_add(1);
        let run = self.run_reached();
        self.lines.insert(
            number,
            Line {
                client,
                conn: None,
                run,
                up: VecDeque::new(),
                down: VecDeque::new(),
                up_at_ns: 0,
                down_at_ns: 0,
                up_stalled_until_ns: 0,
                down_stalled_until_ns: 0,
                cut: false,
                client_knows: false,
                server_knows: false,
                slow_bytes: None,
            },
        );
        self.has_line(client, number);
        let latency_ns = self.latency_ns();
        self.after(latency_ns, WorldEvent::Accept(number));
    }

    /// Runs `act` at the tickerplant that owns a connection, or at the present one if that is gone.
    fn at_server(&mut self, number: u64, act: impl FnOnce(&mut World, u64)) {
        let run = self.line_run(number);
        match self.old_run() == Some(run) {
            true => self.at_run(run, |world| act(world, number)),
            false => act(self, number),
        }
    }

    /// A new connection arrives at the tickerplant's host.
    pub fn accept_at(&mut self, number: u64) {
        self.at_server(number, World::accepts);
    }

    fn accepts(&mut self, number: u64) {
        let run = self.tick_runs;
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.cut) else { return };
        let client = line.client;
        let (Some(tick), true) = (self.tick.as_mut(), line.run == run) else {
            // No process listens.
            line.cut = true;
            line.server_knows = true;
            return self.after(MS, WorldEvent::ClientLearns(number));
        };
        if self.tick_paused_until_ns > self.now_ns {
            return self.at(self.tick_paused_until_ns, WorldEvent::Accept(number));
        }
        let local = self.nodes.values().any(|node| client == Client::Node(node.key) && node.host == self.tick_host);
        let octet = u8::try_from(number % 200).unwrap_or(0);
        let peer = Peer {
            user: World::user_of(client),
            ip: std::net::Ipv4Addr::new(10, 0, 0, octet).into(),
            capability: if number.is_multiple_of(3) { 3 } else { 0 },
            explains: false,
            local,
            tls: None,
            gone: elastick::sys::interrupt::Cancel::default(),
            grants: Arc::new(Grants::everything()),
        };
        line.conn = Some(tick.links.open(number, peer));
        let latency_ns = self.latency_ns();
        self.after(latency_ns, WorldEvent::Connected(number));
    }

    pub fn connected(&mut self, number: u64) {
        let Some(line) = self.lines.get(&number).filter(|line| !line.cut && !line.client_knows) else { return };
        self.is_connected(line.client, number);
    }

    /// A client sends whole messages.
    pub fn send_up(&mut self, number: u64, bytes: Bytes) {
        let latency_ns = self.latency_ns();
        let at_ns = self.now_ns.saturating_add(latency_ns);
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.cut) else { return };
        line.up.push_back(bytes);
        line.up_at_ns = line.up_at_ns.max(at_ns);
        let at_ns = line.up_at_ns;
        self.at(at_ns, WorldEvent::Up(number));
    }

    /// The tickerplant sends a packet.
    pub fn send_down(&mut self, number: u64, packet: Packet) {
        let latency_ns = self.latency_ns();
        let at_ns = self.now_ns.saturating_add(latency_ns);
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.cut) else { return };
        let bytes = match &packet {
            Packet::Data(bytes) => bytes.len() as u64,
            Packet::End => 0,
        };
        let takes_ns = line.slow_bytes.map_or(0, |slow| bytes.saturating_mul(MS) / slow.max(1));
        line.down.push_back(packet);
        line.down_at_ns = line.down_at_ns.max(at_ns).saturating_add(takes_ns);
        let at_ns = line.down_at_ns;
        self.at(at_ns, WorldEvent::Down(number));
    }

    pub fn arrives_up(&mut self, number: u64) {
        let paused_ns = self.tick_paused_until_ns;
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.cut) else { return };
        let wait_ns = line.up_stalled_until_ns.max(paused_ns);
        if wait_ns > self.now_ns {
            return self.at(wait_ns, WorldEvent::Up(number));
        }
        let (Some(bytes), Some(conn)) = (line.up.pop_front(), line.conn) else { return };
        self.tick_receives(conn, &bytes);
    }

    pub fn arrives_down(&mut self, number: u64) {
        let Some(line) = self.lines.get(&number).filter(|line| !line.cut) else { return };
        let wait_ns = line.down_stalled_until_ns.max(self.paused_until_ns(line.client));
        if wait_ns > self.now_ns {
            return self.at(wait_ns, WorldEvent::Down(number));
        }
        let Some(line) = self.lines.get_mut(&number) else { return };
        let (client, conn) = (line.client, line.conn);
        match line.down.pop_front() {
            Some(Packet::Data(bytes)) => {
                if let Some(conn) = conn {
                    self.at_run(self.line_run(number), |world| world.drained(conn, bytes.len()));
                }
                self.client_receives(client, &bytes);
            }
            Some(Packet::End) => {
                line.cut = true;
                self.client_learns(number);
            }
            None => {}
        }
    }

    /// Breaks a connection. `server_ns` and `client_ns` are the delays after which each end notices; `None` schedules nothing for that end.
    pub fn cut(&mut self, number: u64, server_ns: Option<u64>, client_ns: Option<u64>) {
        let Some(line) = self.lines.get_mut(&number).filter(|line| !line.cut) else { return };
        line.cut = true;
        line.up.clear();
        line.down.clear();
        if let Some(ns) = server_ns {
            self.after(ns, WorldEvent::ServerLearns(number));
        }
        if let Some(ns) = client_ns {
            self.after(ns, WorldEvent::ClientLearns(number));
        }
    }

    pub fn server_learns_at(&mut self, number: u64) {
        self.at_server(number, World::server_learns);
    }

    fn server_learns(&mut self, number: u64) {
        if self.tick_paused_until_ns > self.now_ns {
            return self.at(self.tick_paused_until_ns, WorldEvent::ServerLearns(number));
        }
        let run = self.tick_runs;
        let Some(line) = self.lines.get_mut(&number) else { return };
        let conn = line.conn.filter(|_| line.run == run && !line.server_knows);
        line.server_knows = true;
        let over = line.client_knows;
        if let Some(conn) = conn {
            self.tick_loses(conn);
        }
        if over {
            self.lines.remove(&number);
        }
    }

    pub fn client_learns(&mut self, number: u64) {
        let Some(line) = self.lines.get(&number) else { return };
        let (client, knew) = (line.client, line.client_knows);
        let wait_ns = self.paused_until_ns(client);
        if wait_ns > self.now_ns {
            return self.at(wait_ns, WorldEvent::ClientLearns(number));
        }
        if let Some(line) = self.lines.get_mut(&number) {
            line.client_knows = true;
            if line.server_knows {
                self.lines.remove(&number);
            }
        }
        if !knew {
            self.lost_line(client, number);
        }
    }

    /// A client closes its end, or dies.
    pub fn hang_up(&mut self, number: u64, silent: bool) {
        let server_ns = if silent { self.between(5 * SECOND, 20 * SECOND) } else { self.latency_ns() };
        if let Some(line) = self.lines.get_mut(&number) {
            line.client_knows = true;
            if line.cut && line.server_knows {
                self.lines.remove(&number);
                return;
            }
        }
        self.cut(number, Some(server_ns), None);
    }

    /// The tickerplant is gone: packets in flight are lost.
    pub fn cut_all(&mut self, silent: bool) {
        let run = self.tick_runs;
        let here = |line: &Line| !line.cut && line.run == run;
        let open: Vec<u64> = self.lines.iter().filter(|(_, line)| here(line)).map(|(number, _)| *number).collect();
        for number in open {
            if let Some(line) = self.lines.get_mut(&number) {
                line.server_knows = true;
            }
            let client_ns = if silent { self.between(SECOND, 20 * SECOND) } else { self.latency_ns() };
            self.cut(number, None, Some(client_ns));
        }
        for line in self.lines.values_mut().filter(|line| line.run == run) {
            line.server_knows = true;
        }
        self.lines.retain(|_, line| !(line.client_knows && line.server_knows));
    }
}
