"""`clozeworks TASK MODEL INPUT`: the predictions of a model; one command for each task.

The command is made from what the task states about itself, so a new task has one as soon as its
file exists.
"""

from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.items import names_of_texts
from clozeworks.cli.predict import Options, answer_all
from clozeworks.errors import InputError
from clozeworks.serve.client.addresses import is_address
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.tasks.task import Task


def app_of(kind: str) -> App:
    """The command of the task with a name."""
    from clozeworks.tasks.task import command_name, task_class

    task = task_class(kind, "command")
    app = App(name=f"clozeworks {command_name(kind)}", help_format="plaintext", version_flags=[])
    options_type = _options(task)

    def predict(
        model: str,
        /,
        *inputs: Annotated[str, Parameter(required=True)],
        options: Any = None,
        computing: ComputingOptions | None = None,
    ) -> None:
        # The parser reads the help from here.
        _predict(task, model, inputs, options or options_type(), computing or ComputingOptions())

    predict.__doc__ = _help(task)
    predict.__annotations__["options"] = options_type | None
    app.default(predict)
    return app


def _options(task: "type[Task[Any, Any]]") -> type[Options]:
    """The options of every such command, and those of the task."""
    fields = [
        (
            name,
            Annotated[option.type | None, Parameter(alias=option.alias)]
            if option.alias
            else option.type | None,
            field(default=None),
        )
        for name, option in task.command_options.items()
    ]
    options_type = make_dataclass(
        f"{task.__name__}Options",
        fields,
        bases=(Options,),
        namespace={"answers": "texts" if task.writes else "answers"},
        frozen=True,
        kw_only=True,
    )
    options_type.__module__ = __name__  # the parser takes a class of `types` for a built-in one
    item = task.item_type.asked_as((), has_lists=False)
    roles = [role.name for role in item.roles if role.name in item.asked_roles]
    first = next((name for name in roles if name in item.text_names), roles[0])
    lines = [f"        {name}: {option.help}" for name, option in task.command_options.items()]
    lines.append(
        "        columns: Which columns of a file are what, by name or number, such as "
        f"{first}=2. Detected if not given. Roles: {', '.join(roles)}."
    )
    options_type.__doc__ = (
        "How items are read and answers written.\n\n    Attributes:\n" + "\n".join(lines)
    )
    return Parameter(name="*")(options_type)


def _help(task: "type[Task[Any, Any]]") -> str:
    item = task.item_type
    suffixes = ", ".join(item.asked_suffixes)
    names = names_of_texts(item)
    texts = " and ".join(f"a {name}" for name in names)
    between = f" with a tab between {' and '.join(names)}" if len(names) > 1 else ""
    return f"""{task.description}

    Args:
        model: A model folder or hub name that can do it ({task.architecture}); or the address of
            a server, http://HOST:PORT, with #NAME for one of its models.
        inputs: {texts.capitalize()}; or a file ({suffixes}; compressed or not); or - for the lines
            of standard input{between}.
        options: How items are read and answers written.
        computing: Where the model computes.
    """


def _predict(
    kind: "type[Task[Any, Any]]",
    model: str,
    inputs: tuple[str, ...],
    options: Any,
    computing: ComputingOptions,
) -> None:
    item, chosen = kind.item_type, {name: getattr(options, name) for name in kind.command_options}
    top = chosen.get("top")
    options.check(top)
    if not inputs or len(inputs) not in (1, len(item.text_names)):
        wanted = " and ".join(f"a {name}" for name in names_of_texts(item))
        raise InputError(
            f"there {'is' if len(inputs) == 1 else 'are'} {counted(len(inputs), 'input')}; "
            f"{item.command} takes {wanted}, a file, or - for standard input; give one of these."
        )
    if len(inputs) == 1:
        items, bad = options.open(inputs[0], item, kind.chunk_items)
    else:
        from clozeworks.cli.items import check_no_file, one_item, whole_text
        from clozeworks.data.labelled.bad_rows import BadRows

        check_no_file(options)
        # The last text may be long, and stand in a file.
        *first, last = inputs
        last = whole_text(last, options.file_format()) if item.shares_text else last
        items, bad = one_item((*first, last), item), BadRows()

    loaded = computing.open(model)
    task, change = loaded.task_for(kind).configured(**chosen)
    if is_address(model):  # the server does what the options say
        answer_all(loaded, task, items, bad, options, top=top, asked=chosen)
        return
    answer_all(loaded, task, items, bad, options, top=top, change=change)
