"""The parts that all commands share.

* Input: `option.py` parses values, and `filter.py` the filters of lists. `connect_retry.py` opens
  the connection. `connect_options.py` adds the options in use to suggested commands.
* Output: `output.py` prints tables, records and JSON. `humanize.py` formats numbers, `progress.py`
  shows progress, and `watch.py` repeats a command. `stderr.py` writes notes and errors.
* Errors: `failure.py` prints an error, `remedy.py` adds the command that helps, and `exit_code.py`
  has the exit codes.
* Dry runs: `dry_run.py`, `preview.py` and `destination.py`.
* The command line: `command.py` runs a command, `help_text.py` makes its help, and `completion.py`
  completes its words. `standard_streams.py` opens missing standard streams.
"""
