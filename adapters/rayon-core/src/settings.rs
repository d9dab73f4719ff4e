//! Settings of all pools, from the environment.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::OnceLock;

use coreshard::topology::input::quoted;
use coreshard::{Intake, Scope, Wake};
use coreshard_platform::PerProcess;
use coreshard_workqueue::TeamBuilder;

use crate::build_error::ThreadPoolBuildError;
use crate::team::Here;

/// `None` leaves the choice to Coreshard.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settings {
    wake: Option<Wake>,
    intake: Option<Intake>,
    scope: Option<Scope>,
    shard_size: Option<usize>,
    is_shown: bool,
}

/// Returns the settings in the environment at the first call.
pub(crate) fn get() -> Result<&'static Settings, ThreadPoolBuildError> {
    static SETTINGS: PerProcess<OnceLock<Result<Settings, String>>> = PerProcess::new();
    let read = SETTINGS.here().get_or_init(|| Settings::read(|name| env::var_os(name)));
    let settings = read.as_ref().map_err(|why| ThreadPoolBuildError::invalid(why.clone()))?;
    if settings.is_shown {
        show()?;
    }
    Ok(settings)
}

/// Serves `coreshard top` from now on to the end of the process; a program that does so by itself has priority.
#[cfg(feature = "insight")]
fn show() -> Result<(), ThreadPoolBuildError> {
    static SERVER: PerProcess<OnceLock<Option<coreshard::insight::InsightServer>>> =
        PerProcess::new();
    let unseen = |error: &_| tracing::warn!(%error, "coreshard top will not see this process");
    SERVER.here().get_or_init(|| coreshard::serve_insight().inspect_err(unseen).ok());
    Ok(())
}

#[cfg(not(feature = "insight"))]
fn show() -> Result<(), ThreadPoolBuildError> {
    Err(ThreadPoolBuildError::invalid(
        "CORESHARD_INSIGHT is 1, which needs the feature `insight` of the rayon-core that runs on Coreshard",
    ))
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let text = |name| match variable(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(bytes)) => Err(format!(
                "{name} is {}, which is not valid UTF-8",
                quoted(&bytes.to_string_lossy())
            )),
        };
        let shard_size = match text("CORESHARD_SHARD_SIZE")? {
            None => None,
            Some(text) => match text.parse() {
                Ok(cores @ 1..) => Some(cores),
                _ => {
                    return Err(format!(
                        "CORESHARD_SHARD_SIZE is {}: expected a number of cores, from 1",
                        quoted(&text)
                    ));
                }
            },
        };
        let is_shown = match text("CORESHARD_INSIGHT")?.as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(text) => {
                return Err(format!("CORESHARD_INSIGHT is {}: expected one of 0, 1", quoted(text)));
            }
        };
        Ok(Self {
            wake: parsed("CORESHARD_WAKE", text("CORESHARD_WAKE")?)?,
            intake: parsed("CORESHARD_INTAKE", text("CORESHARD_INTAKE")?)?,
            scope: parsed("CORESHARD_SCOPE", text("CORESHARD_SCOPE")?)?,
            shard_size,
            is_shown,
        })
    }

    pub(crate) fn apply<'runtime>(
        &self,
        mut team: TeamBuilder<'runtime, Here>,
    ) -> TeamBuilder<'runtime, Here> {
        if let Some(wake) = self.wake {
            team = team.wake(wake);
        }
        if let Some(intake) = self.intake {
            team = team.intake(intake);
        }
        if let Some(scope) = self.scope {
            team = team.scope(scope);
        }
        if let Some(cores) = self.shard_size {
            team = team.shard_size(cores);
        }
        team
    }
}

/// The errors of the types have the given and the accepted values.
fn parsed<T: FromStr<Err: Display>>(name: &str, text: Option<String>) -> Result<Option<T>, String> {
    let parse = |text: String| text.parse().map_err(|error| format!("{name}: {error}"));
    text.map(parse).transpose()
}

/// The number of threads of a pool if the program requests none; 0: as many as usable CPUs. Read again for each pool, as in
/// rayon: programs set these variables.
pub(crate) fn threads() -> usize {
    threads_by(|name| env::var(name).ok())
}

/// A value that is not a number is ignored.
fn threads_by(variable: impl Fn(&str) -> Option<String>) -> usize {
    let number = |name| variable(name)?.parse::<usize>().ok();
    number("RAYON_NUM_THREADS").or_else(|| number("RAYON_RS_NUM_CPUS")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let find = |name: &str| pairs.iter().find(|pair| pair.0 == name);
        Settings::read(|name| find(name).map(|pair| pair.1.into()))
    }

    #[test]
    fn what_is_absent_is_left_alone() {
        assert_eq!(of(&[]), Ok(Settings::default()));
    }

    #[test]
    fn each_variable_is_read() {
        let settings = of(&[
            ("CORESHARD_WAKE", "under-lock"),
            ("CORESHARD_INTAKE", "locked"),
            ("CORESHARD_SCOPE", "numa"),
            ("CORESHARD_SHARD_SIZE", "4"),
            ("CORESHARD_INSIGHT", "1"),
        ]);
        let expected = Settings {
            wake: Some(Wake::UnderLock),
            intake: Some(Intake::Locked),
            scope: Some(Scope::Numa),
            shard_size: Some(4),
            is_shown: true,
        };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn an_error_names_the_variable_the_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            ("CORESHARD_WAKE", "never", "coalesced"),
            ("CORESHARD_INTAKE", "", "lock-free"),
            ("CORESHARD_SCOPE", "node", "cache_shard"),
            ("CORESHARD_SHARD_SIZE", "0", "from 1"),
            ("CORESHARD_SHARD_SIZE", "many", "from 1"),
            ("CORESHARD_INSIGHT", "yes", "0, 1"),
        ] {
            let error = of(&[(name, value)]).unwrap_err();
            for part in [name, value, allowed] {
                assert!(error.contains(part), "{part} is not in {error}");
            }
        }
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let error = Settings::read(|_| Some(OsString::from_vec(vec![0xff]))).unwrap_err();
        assert!(error.contains("CORESHARD_") && error.contains("not valid UTF-8"), "{error}");
    }

    #[test]
    fn the_newer_number_of_threads_goes_first() {
        let threads = |new: Option<&str>, old: Option<&str>| {
            threads_by(|name| {
                let value = if name == "RAYON_NUM_THREADS" { new } else { old };
                value.map(str::to_owned)
            })
        };
        assert_eq!(threads(None, None), 0);
        assert_eq!(threads(Some("3"), Some("5")), 3);
        // 0 is valid: it means the machine's number.
        assert_eq!(threads(Some("0"), Some("5")), 0);
        assert_eq!(threads(Some("three"), Some("5")), 5);
        assert_eq!(threads(None, Some("0")), 0);
        assert_eq!(threads(None, Some("five")), 0);
    }
}
