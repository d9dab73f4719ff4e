//! Cancellation tokens, which ask work to stop.
//!
//! A token and its children form a tree. Each node has a word that says whether it is cancelled, and under a lock its children
//! and the wakers of its waiters.
//!
//! Rules:
//!
//! 1. The word is set under the node's lock, and a child or a waker is added under it, after a check of the word. So a cancel
//!    finds each child and waker that was added before, and a later addition finds the node cancelled.
//! 2. No node's lock is taken while another one's is held; a waker is cloned, woken and dropped without any.
//! 3. A parent holds its children weakly, a child holds its parent strongly. So a token without handles is freed once it has no
//!    descendants, since a cancel from above passes through it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use coreshard_platform::user;
use coreshard_platform::{AtomicInt, Host, Lock, Platform};

use crate::base::budget;
use crate::insight::diagnostic::say_panic;

const PANICKED: &str = "a waker panicked";

/// Freed children are removed from the list when it has this many entries, and again whenever it has doubled since.
const MIN_CHILDREN: usize = 32;

/// Asks work to stop. Items check [`is_cancelled`](Self::is_cancelled), futures await [`cancelled`](Self::cancelled). Nothing
/// is stopped by force.
///
/// Clones are the same token. A [`child_token`](Self::child_token) is cancelled with its parent, and may be cancelled alone.
/// For example, a service gives each request a child of the service's token, and each request gives its parts children of that
/// one.
///
/// ```
/// use coreshard::CancellationToken;
///
/// let queue = coreshard::workqueue()?.name("requests").build()?;
/// let service = CancellationToken::new();
/// let request = service.child_token();
/// let item = queue.submit({
///     let request = request.clone();
///     move || {
///         let mut steps = 0_u64;
///         while !request.is_cancelled() {
///             steps += 1;
///         }
///         steps
///     }
/// })?;
/// let waiter = queue.spawn(async move { request.cancelled().await })?;
/// service.cancel();
/// item.join()?;
/// # while !waiter.is_finished() { std::thread::yield_now() }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CancellationToken<P: Platform = Host> {
    node: Arc<TokenNode<P>>,
}

struct TokenNode<P: Platform> {
    /// 1 once it is cancelled.
    cancelled: P::AtomicU32,
    links: Lock<P, TokenLinks<P>>,
    /// The parent token.
    above: Option<Arc<Self>>,
}

struct TokenLinks<P: Platform> {
    children: Vec<Weak<TokenNode<P>>>,
    /// The length of `children` at which freed children are removed.
    full: usize,
    /// The waiters' wakers, by their places; `None` for a free place.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl<P: Platform> TokenNode<P> {
    fn new(above: Option<Arc<Self>>) -> Self {
        let links = TokenLinks {
            children: Vec::new(),
            full: MIN_CHILDREN,
            wakers: Vec::new(),
            free: Vec::new(),
        };
        Self { cancelled: P::AtomicU32::new(0), links: Lock::new(links), above }
    }

    fn is_cancelled(&self) -> bool {
        // Acquire: everything done before the cancel is visible.
        self.cancelled.load(Acquire) != 0
    }
}

impl<P: Platform> Drop for TokenNode<P> {
    /// Releases the ancestors one after the other, without recursion, however deep the tree is.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(node) = above {
            above = Arc::into_inner(node).and_then(|mut node| node.above.take());
        }
    }
}

impl<P: Platform> CancellationToken<P> {
    /// Creates a token that is not cancelled.
    ///
    /// # Examples
    /// ```
    /// let token = coreshard::CancellationToken::new();
    /// assert!(!token.is_cancelled());
    /// ```
    pub fn new() -> Self {
        Self { node: Arc::new(TokenNode::new(None)) }
    }

    /// Creates a token that is cancelled with this one, and may be cancelled alone. If this token is dropped first, the child
    /// is still cancelled by this token's ancestors.
    ///
    /// ```
    /// let service = coreshard::CancellationToken::new();
    /// let (one, other) = (service.child_token(), service.child_token());
    /// one.cancel();
    /// assert!(one.is_cancelled() && !other.is_cancelled() && !service.is_cancelled());
    /// service.cancel();
    /// assert!(other.is_cancelled() && service.child_token().is_cancelled());
    /// ```
    pub fn child_token(&self) -> Self {
        let child = Self { node: Arc::new(TokenNode::new(Some(Arc::clone(&self.node)))) };
        let mut links = self.node.links.lock();
        if self.node.is_cancelled() {
            drop(links);
            child.cancel();
            return child;
        }
        if links.children.len() >= links.full {
            links.children.retain(|child| child.strong_count() > 0);
            links.full = (2 * links.children.len()).max(MIN_CHILDREN);
        }
        links.children.push(Arc::downgrade(&child.node));
        drop(links);
        child
    }

    /// Cancels this token and all its descendants, and wakes all their waiters. Further calls have no effect.
    ///
    /// ```
    /// let token = coreshard::CancellationToken::new();
    /// token.cancel();
    /// assert!(token.is_cancelled());
    /// ```
    pub fn cancel(&self) {
        let mut nodes = vec![Arc::clone(&self.node)];
        while let Some(node) = nodes.pop() {
            let (children, wakers) = {
                let mut links = node.links.lock();
                // Release pairs with the Acquire of `is_cancelled`.
                node.cancelled.store(1, Release);
                (std::mem::take(&mut links.children), std::mem::take(&mut links.wakers))
            };
            // A user's waker may panic; the others are still woken.
            for waker in wakers.into_iter().flatten() {
                say_panic(user::wake(waker), PANICKED);
            }
            nodes.extend(children.iter().filter_map(Weak::upgrade));
        }
    }

    /// Incorrect on purpose, for a model that must fail.
    #[cfg(all(test, loom))]
    pub(super) fn cancel_late(&self) {
        let (children, wakers) = {
            let mut links = self.node.links.lock();
            (std::mem::take(&mut links.children), std::mem::take(&mut links.wakers))
        };
        self.node.cancelled.store(1, Release);
        wakers.into_iter().flatten().for_each(|waker| user::wake(waker).unwrap());
        children.iter().filter_map(Weak::upgrade).for_each(|node| Self { node }.cancel_late());
    }

    /// Returns true once this token or one of its ancestors was cancelled. Costs one load.
    ///
    /// # Examples
    /// ```
    /// let queue = coreshard::workqueue()?.name("search").build()?;
    /// let token = coreshard::CancellationToken::new();
    /// let wanted = token.clone();
    /// let looked_at =
    ///     queue.submit(move || (0_u64..).take_while(|_| !wanted.is_cancelled()).count())?;
    /// token.cancel();
    /// println!("{} looked at", looked_at.join()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.node.is_cancelled()
    }

    /// Returns a future that completes once the token is cancelled, under any executor.
    ///
    /// ```
    /// let token = coreshard::CancellationToken::new();
    /// let cancelled = token.cancelled();
    /// token.cancel();
    /// futures_lite::future::block_on(cancelled);
    /// ```
    pub fn cancelled(&self) -> WaitForCancellation<P> {
        WaitForCancellation { token: self.clone(), place: None }
    }

    /// Returns the output of `future`, or `None`, with `future` dropped, if the token is cancelled first.
    ///
    /// ```
    /// # use futures_lite::future::block_on;
    /// let token = coreshard::CancellationToken::new();
    /// assert_eq!(block_on(token.run_until_cancelled(async { 1 })), Some(1));
    /// token.cancel();
    /// assert_eq!(block_on(token.run_until_cancelled(std::future::pending::<u32>())), None);
    /// ```
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut cancelled = self.cancelled();
        let mut future = pin!(future);
        poll_fn(|context| {
            if Pin::new(&mut cancelled).poll(context).is_ready() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl<P: Platform> Clone for CancellationToken<P> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node) }
    }
}

impl<P: Platform> Default for CancellationToken<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for CancellationToken<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationToken").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// A future that completes once its token is cancelled; see [`CancellationToken::cancelled`].
#[must_use = "a future does nothing until it is awaited"]
pub struct WaitForCancellation<P: Platform = Host> {
    token: CancellationToken<P>,
    /// The place of its waker, while the token is not cancelled.
    place: Option<usize>,
}

impl<P: Platform> WaitForCancellation<P> {
    /// Takes its waker back, if it is still there.
    fn leave(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut links = self.token.node.links.lock();
        if self.token.node.is_cancelled() {
            // The cancel has taken all wakers.
            return;
        }
        let waker = links.wakers[place].take();
        links.free.push(place);
        drop(links);
        say_panic(user::discard(waker), PANICKED);
    }
}

impl<P: Platform> Future for WaitForCancellation<P> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.token.is_cancelled() {
            return budget::spending::<P, _>(context, |_| {
                self.place = None;
                Poll::Ready(())
            });
        }
        let waker = context.waker().clone();
        let node = Arc::clone(&self.token.node);
        let mut links = node.links.lock();
        if node.is_cancelled() {
            drop(links);
            self.place = None;
            drop(user::discard(waker));
            return Poll::Ready(());
        }
        let before = match self.place.or_else(|| links.free.pop()) {
            Some(place) => {
                self.place = Some(place);
                links.wakers[place].replace(waker)
            }
            None => {
                self.place = Some(links.wakers.len());
                links.wakers.push(Some(waker));
                None
            }
        };
        drop(links);
        drop(user::discard(before));
        Poll::Pending
    }
}

impl<P: Platform> Drop for WaitForCancellation<P> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<P: Platform> fmt::Debug for WaitForCancellation<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitForCancellation").field("token", &self.token).finish_non_exhaustive()
    }
}
