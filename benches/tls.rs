//! What TLS costs. A relay on `net::Reactor` forwards a publisher's messages to all subscribers, plain and with TLS, beside the speed of
//! AES-256-GCM alone on this machine.
//!
//!     cargo bench --bench tls [-- ROUNDS]
//!
//! Prints medians of interleaved rounds; asserts nothing. The figures are of the relay's thread: the clients are threads of this process.
//! The publisher stays at most `AHEAD_BYTES` ahead of the slowest subscriber.

use bytes::{Bytes, BytesMut};
use elastick::access::Anyone;
use elastick::config::{Limits, TlsMode};
use elastick::net::tls::{self, Door, TlsSettings};
use elastick::net::{Client, CloseReason, ConnId, Control, Listeners, NetLimits, Parts, Peer, Reactor, Service};
use elastick::sys::clock::thread_processor_time;
use proto::{Header, MessageKind, Value, encode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const AHEAD_BYTES: u64 = 4 << 20;
const RUN: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);
const RECORD_BYTES: usize = 16 << 10;
/// Messages per write of the publisher, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Message size in bytes, subscribers.
const CELLS: [(usize, usize); 4] = [(110, 1), (4500, 1), (4500, 4), (100_000, 1)];

struct Relay {
    subscribers: Vec<ConnId>,
    batch: BytesMut,
    /// CPU time of the loop's thread, in nanoseconds.
    cpu_ns: Arc<AtomicU64>,
}

impl Service for Relay {
    fn opened(&mut self, _: ConnId, _: &Peer, _: &mut Control) {}

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        if let Some(request) = ctl.request() {
            self.subscribers.push(conn);
            let reply = encode::message(MessageKind::Response, &Value::Unary(0)).expect("a null");
            return ctl.reply(request, Bytes::from(reply));
        }
        self.batch.extend_from_slice(&header.write().expect("a message that was read"));
        self.batch.extend_from_slice(body);
    }

    fn iteration_ended(&mut self, ctl: &mut Control) {
        if !self.batch.is_empty() {
            let chunk = self.batch.split().freeze();
            self.subscribers.iter().for_each(|subscriber| ctl.send(*subscriber, chunk.clone()));
        }
        let used = u64::try_from(thread_processor_time().as_nanos()).expect("less than centuries");
        self.cpu_ns.store(used, Ordering::Relaxed);
    }

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, conn: ConnId, _: &CloseReason, ctl: &mut Control) {
        self.subscribers.retain(|subscriber| *subscriber != conn);
        // The publisher closes last.
        if ctl.connections().count() == 0 {
            ctl.stop();
        }
    }

    fn woken(&mut self, _: &mut Control) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timer(&mut self, _: &mut Control) {}
}

/// Throughput of one run: bytes from the publisher per second, and per second of the relay's CPU time.
#[derive(Clone, Copy)]
struct Measured {
    elapsed: f64,
    cpu: f64,
}

fn run(size: usize, subscribers: usize, with_tls: bool) -> Measured {
    let listeners = Listeners::tcp(&"127.0.0.1:0".parse().expect("an address")).expect("a port");
    let parts = Parts::new().expect("a readiness queue");
    let scheme = if with_tls { "tcps://" } else { "" };
    let address = format!("{scheme}localhost:{}", listeners.port()).parse().expect("an address");
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let relay = Relay { subscribers: Vec::new(), batch: BytesMut::new(), cpu_ns: Arc::clone(&cpu_ns) };
    let access = Box::new(Anyone::new(BTreeSet::new()));
    let mut reactor =
        Reactor::new(parts, listeners, access, NetLimits::of(&Limits::default()), relay).expect("an event loop");
    if let Some(door) = Door::open().expect("certificates") {
        reactor.set_tls(door).expect("threads");
    }
    let serving = std::thread::spawn(move || reactor.run().expect("runs"));
    let connect = || Client::connect(&address, PATIENCE, proto::Limits::default()).expect("connected");
    let mut publisher = connect();
    let received: Vec<_> = (0..subscribers).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let reading: Vec<_> = received
        .iter()
        .map(|received| {
            let (mut client, received, stop) = (connect(), Arc::clone(received), Arc::clone(&stop));
            client.query("subscribe").expect("subscribed");
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let by = Instant::now() + Duration::from_millis(100);
                    let mut bytes = 0;
                    let read = client.next_messages(Some(by), |_, body| {
                        bytes += body.len() as u64 + proto::HEADER_BYTES as u64;
                        true
                    });
                    read.expect("messages");
                    received.fetch_add(bytes, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let text = vec![b'x'; size.saturating_sub(proto::HEADER_BYTES + 6)];
    let message = encode::message(MessageKind::Async, &Value::chars(text)).expect("a message");
    let batch = message.repeat((BATCH_BYTES / message.len()).max(1));
    let mut sent = 0u64;
    let slowest = || received.iter().map(|received| received.load(Ordering::Relaxed)).min().unwrap_or(0);
    let mut publish_until = |end: Instant| {
        while Instant::now() < end {
            if sent - slowest() > AHEAD_BYTES {
                std::thread::yield_now();
                continue;
            }
            publisher.send_raw(&batch).and_then(|()| publisher.flush()).expect("sent");
            sent += batch.len() as u64;
        }
    };
    publish_until(Instant::now() + WARM_UP);
    let (began, before, cpu_before) = (Instant::now(), slowest(), cpu_ns.load(Ordering::Relaxed));
    publish_until(began + RUN);
    let (bytes, cpu) = (slowest() - before, cpu_ns.load(Ordering::Relaxed) - cpu_before);
    let elapsed = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    reading.into_iter().for_each(|thread| thread.join().expect("read"));
    drop(publisher);
    serving.join().expect("served");
    Measured { elapsed: bytes as f64 / elapsed.as_secs_f64(), cpu: bytes as f64 / (cpu as f64 / 1e9) }
}

/// Bytes per second of CPU time of AES-256-GCM in records: encrypted, decrypted.
fn cipher() -> (f64, f64) {
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[7; 32]).expect("a key"));
    let nonce = || Nonce::assume_unique_for_key([1; NONCE_LEN]);
    let mut record = vec![9u8; RECORD_BYTES];
    let mut sealed = vec![9u8; RECORD_BYTES];
    key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed).expect("sealed");
    let timed = |work: &mut dyn FnMut()| {
        let (began, mut records) = (thread_processor_time(), 0u64);
        while thread_processor_time() < began + WARM_UP {
            (0..64).for_each(|_| work());
            records += 64;
        }
        records as f64 * RECORD_BYTES as f64 / (thread_processor_time() - began).as_secs_f64()
    };
    let seal = timed(&mut || {
        let _ = black_box(key.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut record).expect("sealed"));
    });
    let mut opened = sealed.clone();
    let open = timed(&mut || {
        opened.copy_from_slice(&sealed);
        black_box(key.open_in_place(nonce(), Aad::empty(), &mut opened).expect("opened"));
    });
    (seal, open)
}

/// Makes a certificate for `localhost`, and trusts it.
fn certify() {
    let directory = std::env::temp_dir().join(format!("elastick-bench-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("written");
        Some(path)
    };
    let (authority_key, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut authority = CertificateParams::new([]).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = CertificateParams::new(["localhost".to_string()]).expect("parameters");
    let signed = own.signed_by(&key, &Issuer::from_params(&authority, &authority_key)).expect("signed");
    tls::install(TlsSettings {
        mode: TlsMode::Both,
        certificate: write("own.pem", signed.pem()),
        key: write("own.key", key.serialize_pem()),
        authorities: write("ca.pem", authority.self_signed(&authority_key).expect("signed").pem()),
        ..TlsSettings::default()
    });
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(3);
    certify();
    let ciphers: Vec<_> = (0..rounds).map(|_| cipher()).collect();
    let seal = median(ciphers.iter().map(|(seal, _)| *seal).collect());
    let open = median(ciphers.iter().map(|(_, open)| *open).collect());
    let mega = 1e6;
    println!("AES-256-GCM in records of 16 KiB: {:.0} MB/s encrypted, {:.0} MB/s decrypted", seal / mega, open / mega);
    println!("message  subscribers   plain MB/s  TLS MB/s   loop ns/KB: plain   TLS   of it AES");
    for (size, subscribers) in CELLS {
        let rounds: Vec<_> =
            (0..rounds).map(|_| (run(size, subscribers, false), run(size, subscribers, true))).collect();
        let of = |value: &dyn Fn(&(Measured, Measured)) -> f64| median(rounds.iter().map(value).collect());
        let aes = 1e12 / open + subscribers as f64 * 1e12 / seal;
        println!(
            "{size:7} {subscribers:12} {:12.0} {:9.0} {:19.0} {:5.0} {aes:11.0}",
            of(&|(plain, _)| plain.elapsed / mega),
            of(&|(_, tls)| tls.elapsed / mega),
            of(&|(plain, _)| 1e12 / plain.cpu),
            of(&|(_, tls)| 1e12 / tls.cpu),
        );
    }
}
