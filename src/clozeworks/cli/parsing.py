"""What the parser of the command line complains about, in our sentences."""

from collections.abc import Iterable

from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError

from clozeworks.errors import nearest

# Options that were called otherwise once.
RENAMED = {
    "--budget": "--batch-tokens",
    "--tokens": "--max-new-tokens",
    "--least": "--min-new-tokens",
    "--beams": "--num-beams",
    "--groups": "--num-beam-groups",
    "--diversity": "--diversity-penalty",
    "--repetition": "--repetition-penalty",
    "--presence": "--presence-penalty",
    "--frequency": "--frequency-penalty",
    "--no-repeat-ngrams": "--no-repeat-ngram-size",
    "--texts": "--num-return-sequences",
    "--others": "--top-logprobs",
    "--early": "--early-stopping",
    "--rate": "--learning-rate",
    "--items": "--batch-size",
}


def parser_sentence(error: CycloptsError, command: str) -> str:
    """What is wrong with the words of a command, and where its help is."""
    path = " ".join(["clozeworks", command, *(error.command_chain or ())])
    return f"{_sentence(error)} See: {path} --help"


def _sentence(error: CycloptsError) -> str:
    if isinstance(error, UnknownOptionError):
        option = (error.token.keyword or error.token.value).partition("=")[0]
        known = [name for argument in error.argument_collection for name in argument.names]
        return f"Unknown option: {option}.{_hint(option, known)}"
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens:
        if error.keyword is None and not error.tokens_so_far:
            return f"{error.argument.name} is missing."
        return f"{error.keyword or error.argument.name} needs a value."
    return str(error)


def _hint(option: str, known: Iterable[str]) -> str:
    options = [name for name in known if name.startswith("--")]
    if RENAMED.get(option) in options:
        return f" It is called {RENAMED[option]} now."
    near = nearest(option, options)
    return f" Did you mean {near}?" if near else ""
