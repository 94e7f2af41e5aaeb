//! The command line.

use crate::splice::Shape;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug)]
pub struct Config {
    pub socket: PathBuf,
    pub workspace: PathBuf,
    pub home: PathBuf,
    pub seccomp: bool,
    /// Whether programs may have sockets of the network, be it the loopback's.
    pub inet: bool,
    pub oom_files: Vec<PathBuf>,
    /// How many processes and threads the sandbox may have, this one included, where no control group says so.
    pub max_processes: Option<u64>,
}

#[derive(Debug)]
pub enum Parsed {
    Run(Config),
    Version,
    /// The order, as JSON.
    Launch(String),
    /// The program that preforked processes become, and paths of the host that they need.
    Prefork(PathBuf, Vec<PathBuf>),
    Files,
    /// Takes the network from its namespace.
    Offline,
    /// How many bytes, and how long none may move.
    Splice(Shape, u64, Duration),
    Wrong(String),
}

impl Config {
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
        let mut arguments = arguments.into_iter();
        let (mut socket, mut workspace, mut home) = (None, None, None);
        let (mut seccomp, mut inet) = (true, true);
        let mut oom_files = Vec::new();
        let mut max_processes = None;
        while let Some(argument) = arguments.next() {
            let name = argument.to_string_lossy().into_owned();
            let mut path = || arguments.next().map(PathBuf::from);
            match name.as_str() {
                "--version" => return Parsed::Version,
                "--launch" => match arguments.next().and_then(|order| order.into_string().ok()) {
                    Some(order) => return Parsed::Launch(order),
                    None => return Parsed::Wrong(format!("{name} needs an order")),
                },
                "--prefork" => match arguments.next() {
                    Some(program) => return Parsed::Prefork(program.into(), arguments.map(PathBuf::from).collect()),
                    None => return Parsed::Wrong(format!("{name} needs a program")),
                },
                "--files" => return Parsed::Files,
                "--offline" => return Parsed::Offline,
                "--splice-frames" | "--splice-bytes" => {
                    let shape = if name == "--splice-frames" { Shape::Frames } else { Shape::Bytes };
                    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
                    return match (number(), number()) {
                        (Some(bytes), Some(patience)) => Parsed::Splice(shape, bytes, Duration::from_millis(patience)),
                        _ => Parsed::Wrong(format!("{name} needs a number of bytes and milliseconds")),
                    };
                }
                "--no-seccomp" => seccomp = false,
                "--no-inet" => inet = false,
                "--socket" => socket = path(),
                "--workspace" => workspace = path(),
                "--home" => home = path(),
                "--oom-file" => oom_files.extend(path()),
                "--max-processes" => match path().and_then(|number| number.to_str()?.parse().ok()) {
                    Some(number) => max_processes = Some(number),
                    None => return Parsed::Wrong(format!("{name} needs a number")),
                },
                _ => return Parsed::Wrong(format!("unknown argument {name}")),
            }
        }
        match (socket, workspace, home) {
            (Some(socket), Some(workspace), Some(home)) => {
                Parsed::Run(Config { socket, workspace, home, seccomp, inet, oom_files, max_processes })
            }
            _ => Parsed::Wrong("--socket, --workspace and --home are needed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Parsed {
        Config::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn takes_what_the_agent_gives() {
        let Parsed::Run(config) =
            parse("--socket /s --workspace /w --home /h --no-seccomp --oom-file /a --oom-file /b")
        else {
            panic!("refused");
        };
        assert!(!config.seccomp && config.inet);
        assert_eq!(config.oom_files, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(config.max_processes, None);
        let Parsed::Run(config) = parse("--socket /s --workspace /w --home /h --max-processes 24") else {
            panic!("refused");
        };
        assert_eq!(config.max_processes, Some(24));
        let Parsed::Run(config) = parse("--socket /s --workspace /w --home /h --no-inet") else {
            panic!("refused");
        };
        assert!(config.seccomp && !config.inet);
        assert!(matches!(parse("--socket /s --workspace /w --home /h --max-processes many"), Parsed::Wrong(_)));
        assert!(matches!(parse("--socket /s --workspace /w --home /h --max-processes"), Parsed::Wrong(_)));
        assert!(matches!(parse("--version"), Parsed::Version));
        assert!(matches!(parse("--launch {}"), Parsed::Launch(order) if order == "{}"));
        assert!(matches!(parse("--launch"), Parsed::Wrong(_)));
        assert!(matches!(parse("--prefork /a /b /c"), Parsed::Prefork(_, paths) if paths.len() == 2));
        assert!(matches!(parse("--prefork"), Parsed::Wrong(_)));
        assert!(matches!(parse("--files"), Parsed::Files));
        assert!(matches!(parse("--offline"), Parsed::Offline));
        let half_a_second = Duration::from_millis(500);
        assert!(matches!(parse("--splice-frames 7 500"), Parsed::Splice(Shape::Frames, 7, it) if it == half_a_second));
        assert!(matches!(parse("--splice-bytes 7 500"), Parsed::Splice(Shape::Bytes, 7, it) if it == half_a_second));
        assert!(matches!(parse("--splice-frames 7"), Parsed::Wrong(_)));
        assert!(matches!(parse("--splice-frames 7 -1"), Parsed::Wrong(_)));
        assert!(matches!(parse("--socket /s --workspace /w"), Parsed::Wrong(_)));
        assert!(matches!(parse("--socket /s --workspace /w --home"), Parsed::Wrong(_)));
        assert!(matches!(parse("--what"), Parsed::Wrong(_)));
    }
}
