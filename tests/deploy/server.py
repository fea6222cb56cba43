"""Runs the API server with generated secrets, with numbers in conditions, and with fixes for stacks created by a change set, as `aws cloudformation deploy` does.

    python server.py PATH_OF_moto_run.py -H HOST -p PORT

Without the fixes the server loses their outputs, exports and imports.
"""

import pathlib
import runpy
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from aws.cloud.server import conditions, secret
from moto.cloudformation.models import CloudFormationBackend

assert secret.Secret
conditions.install()
execute = CloudFormationBackend.execute_change_set


def execute_change_set(backend, change_set_name, stack_name=None):
    (change,) = (each for key, each in backend.change_sets.items() if change_set_name in (key, each.change_set_name))
    stack = backend.stacks[change.stack_id]
    stack.resource_map.cross_stack_resources = stack.cross_stack_resources = backend.exports
    execute(backend, change_set_name, stack_name)
    stack._parse_template()
    stack.output_map = stack._create_output_map()
    for export in stack.exports:
        backend.exports[export.name] = export


CloudFormationBackend.execute_change_set = execute_change_set
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
