use boxoffice_supervisor::config::{Config, Parsed};
use boxoffice_supervisor::launch::launch;
use boxoffice_supervisor::supervisor::Supervisor;
use std::process::ExitCode;

fn main() -> ExitCode {
    let config = match Config::parse(std::env::args_os().skip(1)) {
        Parsed::Run(config) => config,
        Parsed::Version => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Parsed::Launch => {
            return match launch() {
                Ok(()) => ExitCode::SUCCESS,
                Err(message) => {
                    eprintln!("supervisor: {message}");
                    ExitCode::FAILURE
                }
            };
        }
        Parsed::Wrong(message) => {
            eprintln!("supervisor: {message}");
            return ExitCode::from(2);
        }
    };
    match Supervisor::new(config) {
        Ok(mut supervisor) => {
            supervisor.run();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("supervisor: {error}");
            ExitCode::FAILURE
        }
    }
}
