"""Every failure that a call can end in: one class a code, raised with facts, worded by a dialect.

    ToolError
      |- Usage        the call itself:      bad_json  unknown_tool  bad_arguments  session_over
      |- Refusal      not allowed here:     outside_workspace  read_only_root  denied  needs_approval
      |                                     dangerous
      |- Place        the path or the file: bad_path  tilde_path  root_missing  not_found  is_directory  not_directory
      |                                     not_regular  binary_file  hard_linked  already_exists  file_too_large
      |                                     too_large_to_change
      |- Reading      the part asked for:   past_end  past_column  page_too_large  timed_out  bad_image  bad_pdf
      |                                     bad_pages  no_outline
      |- Searching    what to look for:     bad_pattern  bad_glob  unknown_type  search_timed_out
      |- Seen         read before write:    not_seen  changed_since
      |- Editing      the change itself:    no_match  many_matches  many_loose  too_many_places  no_change
      |                                     empty_old  placeholder  unsure_indent  cannot_encode
      |                                     bad_notebook  no_such_cell
      |- Patching     a patch:              bad_patch  bad_hunk  ambiguous_hunk  same_file  would_overwrite
      |- Replacing    search and replace:   not_counted  other_count  unknown_occurrence  too_many_occurrences
      |                                     empty_match  bad_replacement
      |- Running      commands:             bad_command  timeout_too_long  no_such_job  too_many_jobs
      |                                      stdin_closed  bad_filter  slow_filter  no_sandbox
      |- System       the machine:          permission_denied  disk_full  read_only_disk  io_error  busy
      |                                     journal_failed
      `- Bug          ours:                 internal_error

An exception carries facts, never a sentence: the sentences are in `dialects/*/messages.toml`, under the same codes.
"""

from __future__ import annotations

from handrail.errors.calls import (
    BadArguments,
    BadJson,
    Bug,
    Dangerous,
    Denied,
    NeedsApproval,
    OutsideWorkspace,
    ReadOnlyRoot,
    Refusal,
    SessionOver,
    ToolError,
    UnknownTool,
    Usage,
)
from handrail.errors.changes import (
    AmbiguousHunk,
    BadHunk,
    BadNotebook,
    BadPatch,
    BadReplacement,
    CannotEncode,
    Editing,
    EmptyMatch,
    EmptyOld,
    ManyLoose,
    ManyMatches,
    NoChange,
    NoMatch,
    NoSuchCell,
    NotCounted,
    OtherCount,
    Patching,
    Placeholder,
    Replacing,
    SameFile,
    TooManyOccurrences,
    TooManyPlaces,
    UnknownOccurrence,
    UnsureIndent,
    WouldOverwrite,
)
from handrail.errors.files import (
    AlreadyExists,
    BadImage,
    BadPages,
    BadPath,
    BadPdf,
    BinaryFile,
    Busy,
    ChangedSince,
    DiskFull,
    FileTooLarge,
    HardLinked,
    IoError,
    IsDirectory,
    NoOutline,
    NotDirectory,
    NotFound,
    NotRegular,
    NotSeen,
    PageTooLarge,
    PastColumn,
    PastEnd,
    PermissionDenied,
    Place,
    Reading,
    ReadOnlyDisk,
    RootMissing,
    Seen,
    System,
    TildePath,
    TimedOut,
    TooLargeToChange,
    from_os,
)
from handrail.errors.work import (
    BadCommand,
    BadFilter,
    BadGlobPattern,
    BadPattern,
    NoSandbox,
    NoSuchJob,
    Running,
    Searching,
    SearchTimedOut,
    SlowFilter,
    StdinClosed,
    TimeoutTooLong,
    TooManyJobs,
    UnknownType,
)

__all__ = [
    "AlreadyExists",
    "AmbiguousHunk",
    "BadArguments",
    "BadCommand",
    "BadFilter",
    "BadGlobPattern",
    "BadHunk",
    "BadImage",
    "BadJson",
    "BadNotebook",
    "BadPages",
    "BadPatch",
    "BadPath",
    "BadPattern",
    "BadPdf",
    "BadReplacement",
    "BinaryFile",
    "Bug",
    "Busy",
    "CannotEncode",
    "ChangedSince",
    "Dangerous",
    "Denied",
    "DiskFull",
    "Editing",
    "EmptyMatch",
    "EmptyOld",
    "FileTooLarge",
    "HardLinked",
    "IoError",
    "IsDirectory",
    "ManyLoose",
    "ManyMatches",
    "NeedsApproval",
    "NoChange",
    "NoMatch",
    "NoOutline",
    "NoSandbox",
    "NoSuchCell",
    "NoSuchJob",
    "NotCounted",
    "NotDirectory",
    "NotFound",
    "NotRegular",
    "NotSeen",
    "OtherCount",
    "OutsideWorkspace",
    "PageTooLarge",
    "PastColumn",
    "PastEnd",
    "Patching",
    "PermissionDenied",
    "Place",
    "Placeholder",
    "ReadOnlyDisk",
    "ReadOnlyRoot",
    "Reading",
    "Refusal",
    "Replacing",
    "RootMissing",
    "Running",
    "SameFile",
    "SearchTimedOut",
    "Searching",
    "Seen",
    "SessionOver",
    "SlowFilter",
    "StdinClosed",
    "System",
    "TildePath",
    "TimedOut",
    "TimeoutTooLong",
    "TooLargeToChange",
    "TooManyJobs",
    "TooManyOccurrences",
    "TooManyPlaces",
    "ToolError",
    "UnknownOccurrence",
    "UnknownTool",
    "UnknownType",
    "UnsureIndent",
    "Usage",
    "WouldOverwrite",
    "from_os",
]
