"""What a `Client` does with functions: calls of them as tasks, and the runs that are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar, overload

from typing_extensions import ParamSpec, TypeVarTuple, Unpack

from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries
from taskq.db.standby import StandbyReads
from taskq.ingest.sources.records import BadLine
from taskq.model.seed import Seed

if TYPE_CHECKING:  # what computes is imported when it is used
    from taskq.compute.chunks import ChunkSize
    from taskq.compute.futures import TaskFuture
    from taskq.compute.local_agents import LocalAgents
    from taskq.compute.plan import MapOptions, StarOptions
    from taskq.compute.run import Run
    from taskq.compute.runs import Calls, StoredRun
    from taskq.compute.trust import IsOwn, Trust

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")
As = TypeVarTuple("As")


class FunctionCalls:
    """The part of `Client` that calls functions.

    Attributes:
        embedded: Whether the server is this user's own.
        local_agents: Agents that `taskq.local_agents` runs now for this program.
        begun: Paths of the campaigns that this client has created or given calls.
    """

    def __init__(
        self, queries: Database | GatewayQueries | StandbyReads, *, embedded: bool
    ) -> None:
        self.queries = queries
        self.embedded = embedded
        self.begun: set[str] = set()
        self.local_agents: list[LocalAgents] = []

    @overload
    def map(
        self,
        function: Callable[Concatenate[A, ...], T],
        arguments: Iterable[A],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        batch: None = None,
        **options: Unpack[MapOptions],
    ) -> Run[T]: ...
    @overload
    def map(
        self,
        function: Callable[..., T],
        arguments: Iterable[Seed | BadLine],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        batch: None = None,
        **options: Unpack[MapOptions],
    ) -> Run[T]: ...
    @overload
    def map(
        self,
        function: Callable[..., Iterable[T]],
        arguments: Iterable[Any],
        *,
        name: str,
        trust: Trust = (),
        batch: int,
        **options: Unpack[MapOptions],
    ) -> Run[T]: ...
    def map(
        self,
        function: Callable[..., Any],
        arguments: Iterable[Any],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        batch: int | None = None,
        **options: Unpack[MapOptions],
    ) -> Run[Any]:
        """Call `function(argument, **params)` for each argument, on agents; return the run.

        The same call in another program or a day later finds the calls: it computes nothing twice,
        adds arguments that are new, and tries cancelled ones again.

        A function of a module goes by name, and the agents' Python must have the module. A function
        of a notebook or script, a lambda or a closure goes by value, with all that it refers to, 32
        MiB at most; for that a login needs the right `pickler`. Arguments and values may be JSON,
        tuples, sets, bytes, dates and NumPy arrays, and by value any object that can be pickled.
        Each has 64 MiB at most.

        Args:
            function: What to call.
            arguments: One for each call. Of a table, give its rows.
            name: The path of the campaign that holds the calls.
            trust: Classes, or packages, of objects that are no data, so that results hold their
                pickles, which can run anything; True for all. Results that agents of yours have
                reported to your own embedded server need none.
            chunksize: How many calls are a task, 1 to 1,000. "auto" is for calls of milliseconds:
                it runs the first hundred one by one, waits for some of them, 5 s at most, and
                chooses by their times. Calls of a chunk share its key, attempts and limits; a
                call that raises has its exception, and the task is done. Records of files and
                large arguments stay alone.
            batch: Call the function with lists of so many arguments at most, for which it returns a
                list of values, or yields them in this order. Each argument stays a task, and one
                that ends the process is found; an exception in place of a value is how that call
                ends.
            options: `inputs`: files that `taskq.input_path` finds on the node. `params`: keywords
                of all calls. `on_change`: what to do if the campaign holds another function, or
                other params or inputs: "fail", the default, raises; "continue" keeps its results
                and computes the rest; "restart" deletes them and begins again. A function of a
                module counts as changed if its own code has changed, or the code that it uses
                outside of installed packages. `tasks_per_child`: after so many tasks a process of
                an agent ends, and the next task gets a new one. All others are settings, fields of
                `CampaignSpec`, such as time_limit_s. By default each call is attempted once.

        Raises:
            FunctionChanged: See `on_change`.
            TypeError: A setting is unknown.
            InvalidTask: An argument cannot be stored; those before it stay.
            UsageError: Iterating over the arguments gives something else, such as the characters of
                a text, the names of a mapping, the columns of a table.
        """
        return self._begun(
            function,
            arguments,
            name=name,
            trust=trust,
            chunksize=chunksize,
            batch=batch,
            options=options,
        )

    @overload
    def starmap(
        self,
        function: Callable[[Unpack[As]], T],
        arguments: Iterable[tuple[Unpack[As]]],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Unpack[StarOptions],
    ) -> Run[T]: ...
    @overload
    def starmap(
        self,
        function: Callable[..., T],
        arguments: Iterable[Iterable[Any]],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        params: Mapping[str, Any],
        **options: Unpack[StarOptions],
    ) -> Run[T]: ...
    def starmap(
        self,
        function: Callable[..., T],
        arguments: Iterable[Iterable[Any]],
        *,
        name: str,
        trust: Trust = (),
        chunksize: ChunkSize = 1,
        **options: Any,
    ) -> Run[T]:
        """Call `function(*argument, **params)` for each argument; otherwise as `map`."""
        return self._begun(
            function,
            arguments,
            name=name,
            trust=trust,
            chunksize=chunksize,
            options=options,
            spread=True,
        )

    def _begun(self, function: Callable[..., T], arguments: Iterable[Any], **how: Any) -> Run[T]:
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        run = runs.start(
            self.queries, self.local_agents, function, arguments, is_own=self._is_own, **how
        )
        self.begun.add(run.path)
        return run

    def run(self, name: str, *, trust: Trust = ()) -> Run[Any]:
        """Return the run that `map` made at a path, also in another program, without its function.

        It has the calls that are stored now, in the order of seeding.

        Args:
            name: The path of its campaign.
            trust: See `map`.

        Raises:
            NotFound: There is no such campaign.
            Conflict: It holds no calls of a function.
        """
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        return runs.attached(
            self.queries, name, trust=trust, is_own=self._is_own, agents=self.local_agents
        )

    def runs(self, path: str | None = None) -> list[StoredRun]:
        """Return the runs of all programs at and below a path, with counts, by path.

        path: by default all; over a gateway, the first campaign that the token is for.
        """
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        return runs.stored(self.queries, path)

    @cached_property
    def calls(self) -> Calls:
        """The single calls of this client, for `submit` and joblib."""
        from taskq.compute.runs import Calls  # noqa: PLC0415

        return Calls(self.queries, self.local_agents, self._is_own)

    @property
    def _is_own(self) -> IsOwn:
        from taskq.compute.trust import own_results  # noqa: PLC0415  # few programs compute

        return own_results(self.queries, embedded=self.embedded)

    @overload
    def submit(
        self, function: Callable[..., T], /, *args: Any, path: str, **kwargs: Any
    ) -> TaskFuture[T]: ...
    @overload
    def submit(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> TaskFuture[T]: ...
    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> TaskFuture[T]:
        """Call a function once, on an agent; return a future, with the `key` of its task.

        The same function with the same arguments is called once: a later call, also from another
        program, gets the stored value. The function goes as in `map`, to the campaign `path`, or
        else to one that is named after the function and what it does, below `/calls`; over a
        gateway, below the first campaign that the token is for. All other arguments are the
        function's, and so is `path` if the function takes an argument of this name. For values of
        classes that you have to `trust`, use `map` or `Executor`.
        """
        from taskq.compute import functions  # noqa: PLC0415  # few programs compute

        path = None
        if "path" in kwargs and not functions.takes(function, "path"):
            path = kwargs.pop("path")
        future = self.calls.submit(function, args, kwargs, path=path)
        self.begun.add(future.campaign.path)
        return future
