//! The builder of a team.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};

use coreshard_platform::user::User;
use coreshard_platform::{Host, Platform, SpawnError, ThreadSpec};
use coreshard_topology::{Scope, ShardSize};

use super::error::TeamError;
use super::handle::{Team, TeamLease};
use super::listing::Listing;
use super::member_thread::MemberThread;
use crate::base::variants::{Intake, Wake};
use crate::config::attributes::Hooks;
use crate::config::request::Request;
use crate::config::team::TeamSpec;
use crate::pool::{NameMember, OwnPool, StartMember, is_taken};
use crate::runtime::Runtime;

/// Configures and builds a [`Team`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TeamBuilder<'runtime, P: Platform = Host> {
    runtime: &'runtime Runtime<P>,
    name: String,
    team: TeamSpec,
    name_of: Option<Box<dyn FnMut(usize) -> Option<String> + 'static>>,
    stack_bytes: Option<usize>,
    scope: Scope,
    shard_cores: usize,
    wake: Wake,
    intake: Intake,
}

impl<P: Platform> Runtime<P> {
    /// Returns a builder for a [`Team`] on this runtime. The name is for reports and errors.
    ///
    /// # Examples
    /// ```
    /// let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("render").members(2).build()?;
    /// assert_eq!(team.install(|| 1 + 1), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn team(&self, name: impl Into<String>) -> TeamBuilder<'_, P> {
        TeamBuilder {
            runtime: self,
            name: name.into(),
            team: TeamSpec { process_generation: P::process_generation(), ..TeamSpec::default() },
            name_of: None,
            stack_bytes: None,
            scope: Scope::Cache,
            shard_cores: ShardSize::default().cores(),
            wake: Wake::default(),
            intake: Intake::default(),
        }
    }
}

impl<P: Platform> TeamBuilder<'_, P> {
    /// Sets the number of threads, at most [`Team::MAX_MEMBERS`]. Default, and 0: the number of usable CPUs.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// assert_eq!(runtime.team("three").members(3).build()?.members(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn members(mut self, members: usize) -> Self {
        self.team.members = members;
        self
    }

    /// Sets the threads' names by their index; `None` for a name by the runtime's rules, which is the default.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("named").members(2).thread_names(|index| Some(format!("worker {index}"))).build()?;
    /// let names = team.broadcast(|_| std::thread::current().name().map(str::to_owned));
    /// assert_eq!(names[1].as_deref(), Some("worker 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_names(mut self, name: impl FnMut(usize) -> Option<String> + 'static) -> Self {
        self.name_of = Some(Box::new(name));
        self
    }

    /// Sets the size of the threads' stacks; values below 64 KiB are raised to that. Default: the platform's.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("deep").members(1).stack_bytes(16 << 20).build()?;
    /// team.install(|| println!("may recurse deeply"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes.max(crate::runtime::MIN_STACK_BYTES));
        self
    }

    /// Sets a hook that runs first on each thread, with the thread's index. Its panics go to the panic handler.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let team = runtime.team("told").members(2).on_start(move |index| tell.send(index).unwrap()).build()?;
    /// assert_eq!(told.iter().take(2).sum::<usize>(), 1);
    /// # drop(team);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.team.on_start = Some(Box::new(User::new(hook)));
        self
    }

    /// Sets a hook that runs last on each thread, with the thread's index. Its panics go to the panic handler.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let team = runtime.team("told").members(2).on_exit(move |index| tell.send(index).unwrap()).build()?;
    /// drop(team);
    /// assert_eq!(told.iter().take(2).sum::<usize>(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_exit(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.team.on_exit = Some(Box::new(User::new(hook)));
        self
    }

    /// Sets a handler for panics of detached work and hooks. Without a handler, and if the handler itself panics, the panic is
    /// logged through `tracing`, and the team continues.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let team = runtime.team("told").on_panic(move |_payload| tell.send(()).unwrap()).build()?;
    /// team.spawn(|| panic!("nobody waits for this"));
    /// told.recv()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(
        mut self,
        handler: impl Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    ) -> Self {
        self.team.on_panic =
            Some(Box::new(User::new(move |thrown: coreshard_platform::user::Thrown| {
                handler(thrown.into_payload());
            })));
        self
    }

    /// Makes a member run the work that it has spawned in the order of spawning. Default: the latest first.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("in order").members(1).breadth_first().build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// team.install(|| {
    ///     for number in 0..2 {
    ///         let tell = tell.clone();
    ///         team.spawn(move || tell.send(number).unwrap());
    ///     }
    /// });
    /// assert_eq!(told.iter().take(2).collect::<Vec<_>>(), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn breadth_first(mut self) -> Self {
        self.team.breadth_first = true;
        self
    }

    /// Makes the thread that calls [`build`](Self::build) the member with index 0, until the thread exits. It does the team's
    /// work while it waits for some of it, and when it yields. After its exit the team continues without it, and work that was
    /// sent to it alone ([broadcasts](Team::broadcast)) and has not begun is dropped. The main thread is a member for as long
    /// as the process lasts.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// std::thread::spawn(move || {
    ///     let team = runtime.team("mine, too").members(2).with_current_thread().build().unwrap();
    ///     assert_eq!(team.index(), Some(0));
    /// }).join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_current_thread(mut self) -> Self {
        self.team.has_current_thread = true;
        self
    }

    /// Sets which CPUs' members share a pool, with its lists, its sleepers and its lock. A member without work takes work from
    /// other pools, the nearest first. If there are fewer members than pods, the next wider scope is used. Default:
    /// [`Scope::Cache`].
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("by node").scope(coreshard::Scope::Numa).build()?;
    /// assert_eq!(team.install(|| 1), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the wanted size of a cache shard, in cores, if the scope is that; see
    /// [`Builder::shard_size`](crate::Builder::shard_size).
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let scope = coreshard::Scope::CacheShard;
    /// let team = runtime.team("by four cores").scope(scope).shard_size(4).build()?;
    /// assert_eq!(team.install(|| 1), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shard_size(mut self, cores: usize) -> Self {
        self.shard_cores = cores;
        self
    }

    /// Sets how members are woken; see [`Wake`].
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("coalesced").wake(coreshard::Wake::Coalesced).build()?;
    /// assert_eq!(team.install(|| 1), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Sets how work enters a pool; see [`Intake`].
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("locked").intake(coreshard::Intake::Locked).build()?;
    /// assert_eq!(team.install(|| 1), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn intake(mut self, intake: Intake) -> Self {
        self.intake = intake;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// Fails if a thread cannot be started, this thread was to be a member and is one already, or the runtime is shut down.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("two").members(2).build()?;
    /// assert_eq!(team.install(|| 1), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self) -> Result<Team<P>, TeamError> {
        self.build_by(None)
    }

    /// Starts the team on threads of the program: `start` is called once for each member before this returns, and must arrange
    /// for [`MemberThread::run`] to be called on another thread.
    ///
    /// # Errors
    /// Fails as [`build`](Self::build) does, and with the error of `start`; it is not called again then, and the members that
    /// were started exit.
    ///
    /// # Examples
    /// ```
    /// # let runtime = coreshard::runtime_builder()?.build()?;
    /// let team = runtime.team("own threads").members(2).build_on(&mut |member| {
    ///     std::thread::Builder::new().name(format!("mine {}", member.index())).spawn(|| member.run())?;
    ///     Ok(())
    /// })?;
    /// let name = team.install(|| std::thread::current().name().map(str::to_owned));
    /// assert!(name.is_some_and(|name| name.starts_with("mine")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_on(
        self,
        start: &mut dyn FnMut(MemberThread) -> io::Result<()>,
    ) -> Result<Team<P>, TeamError> {
        self.build_by(Some(start))
    }

    fn build_by(
        mut self,
        mut start: Option<&mut dyn FnMut(MemberThread) -> io::Result<()>>,
    ) -> Result<Team<P>, TeamError> {
        if self.team.has_current_thread && is_taken::<P>() {
            return Err(TeamError::CurrentThreadTaken);
        }
        if self.team.members == 0 {
            self.team.members = self.runtime.workers();
        }
        self.team.members = self.team.members.min(Team::<P>::MAX_MEMBERS);
        let team = Arc::new(self.team);
        let by_program = start.is_some();
        let mut failure = None;
        let mut start_member = |index, has_name, spec: ThreadSpec, body| {
            let Some(start) = &mut start else { unreachable!("only called if there is one") };
            start(MemberThread { index, has_name, spec, body }).map_err(|error| {
                let reason = io::Error::other(error.to_string());
                failure = Some(error);
                SpawnError::refused(format!("member {index} of a team"), reason)
            })
        };
        let name = self.name.clone();
        let request = Request {
            scope: self.scope,
            shard_size: ShardSize::new(self.shard_cores),
            wake: self.wake,
            intake: self.intake,
            stack_bytes: self.stack_bytes,
            hooks: Hooks::default(),
            ..self.runtime.request(self.name)
        };
        let start_member: Option<StartMember<'_>> =
            if by_program { Some(&mut start_member) } else { None };
        let mut nameless = |_| None;
        let name_of: NameMember<'_> = match &mut self.name_of {
            Some(name_of) => &mut **name_of,
            None => &mut nameless,
        };
        match self.runtime.start_team(request, team, name_of, start_member) {
            Ok(lease) => {
                let pool = lease.set().pools().next().map(Arc::clone);
                let pool = OwnPool::new(&pool.unwrap_or_else(|| unreachable!("there is a CPU")));
                let listing = Arc::new(Listing { name, set: Arc::clone(lease.set()) });
                let listed: Weak<Listing<P>> = Arc::downgrade(&listing);
                self.runtime.list(listed);
                let lease = TeamLease { _lease: lease, _listing: listing };
                Ok(Team { pool, lease: Some(Arc::new(lease)) })
            }
            Err(error) => Err(match (failure, error.into_thread_error()) {
                (Some(failure), _) => TeamError::Thread(failure),
                (None, Ok(error)) => TeamError::Thread(io::Error::other(error)),
                (None, Err(error)) => TeamError::Build(error),
            }),
        }
    }
}

impl<P: Platform> fmt::Debug for TeamBuilder<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamBuilder")
            .field("name", &self.name)
            .field("members", &self.team.members)
            .field("stack_bytes", &self.stack_bytes)
            .field("scope", &self.scope)
            .field("shard_cores", &self.shard_cores)
            .finish_non_exhaustive()
    }
}
