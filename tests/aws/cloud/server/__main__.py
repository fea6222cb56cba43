"""Runs the API server with our patches: `python -m aws.cloud.server PATH_OF_moto_run.py -p PORT`."""

import runpy
import sys

import moto.server

from . import conditions, control, groups, hooks, schedule, secret, stacks


def main():
    script, *arguments = sys.argv[1:]
    conditions.install()
    groups.install()
    hooks.install()
    stacks.install()
    assert secret.Secret
    schedule.install()
    serve = moto.server.main

    def serve_patched():
        # Patch last, so that our handler runs before the script's own wrappers of the server.
        control.install()
        groups.start_clockwork()
        serve()

    moto.server.main = serve_patched
    sys.argv = [script, "-H", "127.0.0.1", *arguments]
    runpy.run_path(script, run_name="__main__")


main()
