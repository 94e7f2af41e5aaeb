use boxoffice_supervisor::config::{Config, Parsed};
use boxoffice_supervisor::files;
use boxoffice_supervisor::prefork;
use boxoffice_supervisor::splice;
use boxoffice_supervisor::supervisor::Supervisor;
use boxoffice_supervisor::sys;
use std::process::ExitCode;

fn main() -> ExitCode {
    let config = match Config::parse(std::env::args_os().skip(1)) {
        Parsed::Run(config) => config,
        Parsed::Version => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Parsed::Launch(order) => return end_of(prefork::launch(&order)),
        Parsed::Prefork(program, paths) => return end_of(prefork::keep(&program, &paths)),
        Parsed::Offline => return end_of(sys::offline::remove_devices()),
        Parsed::Files => return end_of(files::serve()),
        Parsed::Splice(shape, bytes, patience) => {
            return splice::run(shape, bytes, patience)
                .map_or_else(|stop| ExitCode::from(stop as u8), |()| ExitCode::SUCCESS);
        }
        Parsed::Wrong(message) => {
            eprintln!("supervisor: {message}");
            return ExitCode::from(2);
        }
    };
    end_of(Supervisor::new(config).map(|mut supervisor| supervisor.run()))
}

fn end_of<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("supervisor: {error}");
            ExitCode::FAILURE
        }
    }
}
