//! From a `start` message to a running program with its ends of the pipes.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Access, CWD, Mode, OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::process::pty;
use crate::sys::launch::{Launch, Stack, Stage, launch};
use crate::wire::fault::{Fault, Kind};
use crate::wire::file_name;
use crate::wire::message::{Start, StdinMode};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What all starts have in common.
pub struct Spawner {
    workspace: PathBuf,
    environment: BTreeMap<Vec<u8>, CString>,
    null: OwnedFd,
    stack: Stack,
    descriptors: Option<libc::rlimit64>,
    cookie: u64,
}

/// A running program and our ends of what it holds.
pub struct Child {
    pub pid: i32,
    pub stdin: Option<OwnedFd>,
    pub output: [Option<OwnedFd>; 2],
}

/// Why nothing runs.
#[derive(Debug)]
pub enum SpawnError {
    BadArguments(&'static str),
    Pty(Errno),
    Pipe(Errno),
    Launch(Stage, Errno),
}

/// The strings of one start; the pointers given to the kernel lead into them.
struct Strings {
    argv: Vec<CString>,
    candidates: Vec<CString>,
    environment: BTreeMap<Vec<u8>, CString>,
    cwd: CString,
}

impl Spawner {
    pub fn new(
        workspace: &Path,
        home: &Path,
        descriptors: Option<libc::rlimit64>,
        cookie: u64,
    ) -> Result<Spawner, Errno> {
        let mut environment = BTreeMap::new();
        let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
        let home = (b"HOME".to_vec(), home.as_os_str().as_bytes().to_vec());
        let lang = (b"LANG".to_vec(), b"C.UTF-8".to_vec());
        let path = (b"PATH".to_vec(), DEFAULT_PATH.as_bytes().to_vec());
        for (name, value) in [path].into_iter().chain(own).chain([home, lang]) {
            if let Some(entry) = assignment(&name, &value) {
                environment.insert(name, entry);
            }
        }
        Ok(Spawner {
            workspace: workspace.to_owned(),
            environment,
            null: rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
            stack: Stack::new()?,
            descriptors,
            cookie,
        })
    }

    pub fn spawn(&mut self, start: &Start, tag: Option<u64>) -> Result<Child, SpawnError> {
        let strings = self.strings(start)?;
        if let Some(size) = start.pty {
            let pty = pty::open(size).map_err(SpawnError::Pty)?;
            // Reading and writing wait independently of each other, so each has its own descriptor.
            let stdin = rustix::io::fcntl_dupfd_cloexec(&pty.master, 3).map_err(SpawnError::Pty)?;
            fcntl_setfl(&pty.master, OFlags::RDWR | OFlags::NONBLOCK).map_err(SpawnError::Pty)?;
            let pid = self.launch(&strings, [&pty.slave, &pty.slave, &pty.slave], true, tag)?;
            return Ok(Child { pid, stdin: Some(stdin), output: [Some(pty.master), None] });
        }
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(SpawnError::Pipe);
        let (stdout, stdout_write) = pipe()?;
        let (stderr, stderr_write) = pipe()?;
        let mut stdin = None;
        let mut stdin_read = None;
        if start.stdin == StdinMode::Open {
            let (read, write) = pipe()?;
            fcntl_setfl(&write, OFlags::WRONLY | OFlags::NONBLOCK).map_err(SpawnError::Pipe)?;
            (stdin_read, stdin) = (Some(read), Some(write));
        }
        for end in [&stdout, &stderr] {
            fcntl_setfl(end, OFlags::NONBLOCK).map_err(SpawnError::Pipe)?;
        }
        let pid = match &stdin_read {
            Some(read) => self.launch(&strings, [read, &stdout_write, &stderr_write], false, tag)?,
            None => self.launch_without_stdin(&strings, [&stdout_write, &stderr_write], tag)?,
        };
        Ok(Child { pid, stdin, output: [Some(stdout), Some(stderr)] })
    }

    fn launch_without_stdin(
        &mut self,
        strings: &Strings,
        [stdout, stderr]: [&OwnedFd; 2],
        tag: Option<u64>,
    ) -> Result<i32, SpawnError> {
        let stdio = [self.null.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()];
        self.launch_raw(strings, stdio, false, tag)
    }

    fn launch(
        &mut self,
        strings: &Strings,
        stdio: [&OwnedFd; 3],
        terminal: bool,
        tag: Option<u64>,
    ) -> Result<i32, SpawnError> {
        self.launch_raw(strings, stdio.map(|fd| fd.as_raw_fd()), terminal, tag)
    }

    fn launch_raw(
        &mut self,
        strings: &Strings,
        stdio: [i32; 3],
        terminal: bool,
        tag: Option<u64>,
    ) -> Result<i32, SpawnError> {
        let environment = self.environment.iter().filter(|(name, _)| !strings.environment.contains_key(*name));
        let envp = pointers(environment.map(|(_, entry)| entry).chain(strings.environment.values()));
        let request = Launch {
            candidates: &strings.candidates.iter().map(|path| path.as_ptr()).collect::<Vec<_>>(),
            argv: &pointers(strings.argv.iter()),
            envp: &envp,
            cwd: &strings.cwd,
            stdio,
            terminal,
            tag,
            cookie: self.cookie,
            descriptors: self.descriptors,
        };
        launch(&request, &mut self.stack).map_err(|(stage, errno)| SpawnError::Launch(stage, errno))
    }

    fn strings(&self, start: &Start) -> Result<Strings, SpawnError> {
        let mut environment = BTreeMap::new();
        for (name, value) in &start.env {
            let entry = assignment(name.as_bytes(), value.as_bytes());
            environment.insert(name.clone().into_bytes(), entry.ok_or(SpawnError::BadArguments("env"))?);
        }
        let argv = match (&start.command, &start.argv) {
            (Some(command), _) => vec![shell(start.shell.as_deref()), "-c", command],
            (None, Some(argv)) => argv.iter().map(String::as_str).collect(),
            (None, None) => Vec::new(),
        };
        let program = argv.first().filter(|name| !name.is_empty()).ok_or(SpawnError::BadArguments("argv"))?;
        let path = environment.get(&b"PATH"[..]).or_else(|| self.environment.get(&b"PATH"[..]));
        let path = path.map_or(DEFAULT_PATH.as_bytes(), |entry| &entry.as_bytes()[b"PATH=".len()..]);
        let cwd = file_name::bytes(start.cwd.as_deref().unwrap_or(""));
        let cwd = self.workspace.join(OsStr::from_bytes(&cwd));
        Ok(Strings {
            candidates: candidates(program, path)?,
            argv: argv.iter().map(|text| string(text.as_bytes(), "argv")).collect::<Result<_, _>>()?,
            environment,
            cwd: string(cwd.as_os_str().as_bytes(), "cwd")?,
        })
    }
}

fn shell(wanted: Option<&str>) -> &str {
    match wanted {
        Some(shell) => shell,
        None if rustix::fs::accessat(CWD, "/bin/bash", Access::EXEC_OK, rustix::fs::AtFlags::empty()).is_ok() => {
            "/bin/bash"
        }
        None => "/bin/sh",
    }
}

fn string(bytes: &[u8], what: &'static str) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::BadArguments(what))
}

fn assignment(name: &[u8], value: &[u8]) -> Option<CString> {
    if name.is_empty() || name.contains(&b'=') {
        return None;
    }
    CString::new([name, b"=", value].concat()).ok()
}

fn candidates(program: &str, path: &[u8]) -> Result<Vec<CString>, SpawnError> {
    if program.contains('/') {
        return Ok(vec![string(program.as_bytes(), "argv")?]);
    }
    let folders = path.split(|byte| *byte == b':');
    let named = folders.map(|folder| match folder {
        b"" => string(program.as_bytes(), "argv"),
        folder => string(&[folder, b"/", program.as_bytes()].concat(), "argv"),
    });
    named.collect()
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

impl SpawnError {
    /// The kinds of contract C-33.
    pub fn fault(&self, start: &Start) -> Fault {
        let program = start.argv.as_ref().and_then(|argv| argv.first()).map_or("command", String::as_str);
        match *self {
            SpawnError::BadArguments(what) => Fault::new(Kind::BadArgs, format!("{what}: not usable")),
            SpawnError::Pty(errno) => Fault::of(Kind::PtyFailed, errno, "pty"),
            SpawnError::Pipe(errno) => Fault::of(resource(errno), errno, "pipe"),
            SpawnError::Launch(Stage::Directory, errno) => {
                Fault::of(Kind::BadCwd, errno, start.cwd.as_deref().unwrap_or("working directory"))
            }
            SpawnError::Launch(Stage::Terminal, errno) => Fault::of(Kind::PtyFailed, errno, "pty"),
            SpawnError::Launch(Stage::Execute, errno) => {
                let program = match start.command {
                    Some(_) => shell(start.shell.as_deref()),
                    None => program,
                };
                Fault::of(execution(errno), errno, program)
            }
            SpawnError::Launch(_, errno) => Fault::of(resource(errno), errno, program),
        }
    }
}

fn execution(errno: Errno) -> Kind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => Kind::NotFound,
        Errno::ACCESS | Errno::PERM => Kind::PermissionDenied,
        Errno::NOEXEC | Errno::LIBBAD | Errno::ISDIR => Kind::NotExecutable,
        Errno::TOOBIG | Errno::NAMETOOLONG => Kind::BadArgs,
        other => resource(other),
    }
}

fn resource(errno: Errno) -> Kind {
    match errno {
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => Kind::ResourceLimit,
        _ => Kind::Other,
    }
}
