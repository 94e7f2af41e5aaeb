//! The loop: one thread that owns every process, ring and connection.

mod calls;
mod egress;
mod input;
mod jobs;
mod kill;
mod link;
mod pump;
mod readers;
mod reap;
mod records;
mod shutdown;
mod start;
mod tunnels;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::channel::{Channel, Interest};
use crate::config::Config;
use crate::files::Threads;
use crate::poll::{Happened, Poll, Token};
use crate::process::Process;
use crate::process::oom::{OomCounter, OomScore};
use crate::process::spawn::Spawner;
use crate::process::tag::Tags;
use crate::seccomp;
use crate::sys::{self, setup};
use crate::timers::{Timer, Timers};
use crate::wire::message::Reason;

/// What is read at once.
const READ: usize = 64 << 10;
/// From this size on the allocator maps memory (`tune_allocator`): nothing writes zeros to it, so a page costs nothing before it is
/// read into. Most supervisors read a few hundred bytes in their life.
const SCRATCH: usize = 128 << 10;

pub struct Supervisor {
    config: Config,
    poll: Poll,
    timers: Timers,
    clock: Instant,
    signals: OwnedFd,
    threads: Threads,
    boot: String,
    control: link::Control,
    channels: HashMap<u32, Channel>,
    egress: egress::Egress,
    next_channel: u32,
    processes: HashMap<u32, Box<Process>>,
    ids: HashMap<String, u32>,
    pids: HashMap<i32, u32>,
    next_serial: u32,
    /// Ended processes, the oldest first.
    ended: VecDeque<u32>,
    sinks: HashMap<u32, OwnedFd>,
    next_sink: u32,
    /// Channels with something to write once the events at hand are dealt with.
    dirty: Vec<u32>,
    /// Pipes read to their end, closed before the next wait: what they said has left by then.
    spent: Vec<OwnedFd>,
    grown: records::Grown,
    scratch: Vec<u8>,
    spawner: Spawner,
    tags: Tags,
    oom: OomCounter,
    oom_score: Option<OomScore>,
    shutdown: Option<shutdown::Shutdown>,
}

/// Why a supervisor does not begin.
#[derive(Debug)]
pub struct SetupError {
    stage: &'static str,
    errno: Errno,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.errno)
    }
}

fn at(stage: &'static str) -> impl Fn(Errno) -> SetupError {
    move |errno| SetupError { stage, errno }
}

impl Supervisor {
    /// Everything that has to be in force before the first dial.
    pub fn new(config: Config) -> Result<Supervisor, SetupError> {
        setup::close_inherited();
        setup::tune_allocator();
        setup::take_signals();
        // Before the kernel closes our own files in /proc to us.
        let oom_score = OomScore::open();
        setup::become_untraceable().map_err(at("dumpable"))?;
        setup::become_subreaper().map_err(at("subreaper"))?;
        setup::forbid_new_privileges().map_err(at("no new privileges"))?;
        let mut random = [0; 32];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty()).map_err(at("random"))?;
        let [a, b, c, _] = word_pair(&random);
        if config.seccomp {
            let families = if config.inet { seccomp::OF_NAMESPACE } else { seccomp::UNIX_ALONE };
            setup::install_filter(&seccomp::program(a, std::process::id(), families)).map_err(at("seccomp"))?;
        }
        let descriptors = setup::raise_descriptor_limit();
        config.max_processes.map_or(Ok(()), setup::limit_processes).map_err(at("number of processes"))?;
        let _ = std::fs::create_dir_all(&config.home);
        let spawner = Spawner::new(&config.workspace, &config.home, descriptors, a).map_err(at("spawner"))?;
        let signals = sys::signalfd(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT]).map_err(at("signalfd"))?;
        let poll = Poll::new().map_err(at("epoll"))?;
        let reading = Interest { read: true, write: false };
        poll.add(&signals, Token::Signal, reading).map_err(at("epoll"))?;
        let threads = Threads::new().map_err(at("eventfd"))?;
        poll.add(threads.bell(), Token::Threads, reading).map_err(at("epoll"))?;
        Ok(Supervisor {
            oom: OomCounter::open(&config.oom_files),
            oom_score,
            config,
            poll,
            timers: Timers::default(),
            clock: Instant::now(),
            signals,
            threads,
            boot: format!("{b:016x}"),
            control: link::Control::default(),
            channels: HashMap::new(),
            egress: egress::Egress::default(),
            next_channel: 0,
            processes: HashMap::new(),
            ids: HashMap::new(),
            pids: HashMap::new(),
            next_serial: 0,
            ended: VecDeque::new(),
            sinks: HashMap::new(),
            next_sink: 0,
            dirty: Vec::new(),
            spent: Vec::new(),
            grown: records::Grown::default(),
            scratch: vec![0; SCRATCH],
            spawner,
            tags: Tags::new(c),
            shutdown: None,
        })
    }

    /// Returns when a shutdown is complete.
    pub fn run(&mut self) {
        self.dial();
        while !self.is_over() {
            self.turn();
        }
        self.say_goodbye();
    }

    fn turn(&mut self) {
        let now = self.now();
        let timeout = self.timers.next().map(|at| at.saturating_sub(now));
        self.spent.clear();
        for event in self.poll.wait(timeout) {
            let token = event.token;
            // A defect met on one connection or process costs that one, not PID 1.
            if catch_unwind(AssertUnwindSafe(|| self.handle(event))).is_err() {
                self.scratch.resize(SCRATCH, 0);
                self.drop_source(token);
            }
        }
        let now = self.now();
        while let Some(timer) = self.timers.due(now) {
            let _ = catch_unwind(AssertUnwindSafe(|| self.elapsed(timer)));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.flush_dirty();
            self.flush_control();
            self.keep_spares();
            self.resume_egress();
            self.bound_records();
        }));
    }

    fn handle(&mut self, event: Happened) {
        match event.token {
            Token::Signal => self.on_signals(),
            Token::Threads => self.on_threads(),
            Token::Control => self.on_control(&event),
            Token::Channel(number) => self.on_channel(number, &event),
            Token::Output(serial, stream) => self.on_output(serial, stream),
            Token::Stdin(serial) => self.feed_stdin(serial),
            Token::Sink(number) => self.drop_output(number),
            Token::Tunnel(number) => self.on_tunnel(number, &event),
            Token::Egress => self.on_egress(),
        }
    }

    fn elapsed(&mut self, timer: Timer) {
        match timer {
            Timer::Timeout(serial) => self.time_out(serial),
            Timer::Kill(serial) => self.kill_step(serial),
            Timer::KillAfter(serial) => self.kill(serial, Reason::Signaled, None, 0),
            Timer::Drain(serial) => self.drain_over(serial),
            Timer::Orphan(serial) => self.orphan(serial),
            Timer::Look(serial) => self.look(serial),
            Timer::Wait(serial) => self.answer_waits(serial),
            Timer::Connect(number) => self.connect_over(number),
            Timer::Expire => self.expire(),
            Timer::Dial => self.dial(),
            Timer::Egress => self.retry_egress(),
            Timer::Shutdown => self.shutdown_step(),
        }
    }

    fn drop_source(&mut self, token: Token) {
        match token {
            Token::Control => self.lose_control(),
            Token::Channel(number) | Token::Tunnel(number) => self.close_channel(number),
            Token::Output(serial, stream) => {
                if let Some(process) = self.processes.get_mut(&serial) {
                    process.streams[stream].fd = None;
                }
            }
            Token::Stdin(serial) => {
                if let Some(process) = self.processes.get_mut(&serial) {
                    process.stdin.fd = None;
                }
            }
            Token::Sink(number) => {
                self.sinks.remove(&number);
            }
            Token::Signal | Token::Threads | Token::Egress => {}
        }
    }

    /// Nanoseconds of the monotonic clock since the start.
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn word_pair(random: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(random.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}
