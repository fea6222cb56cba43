"""Tests of the deployment: templates (lint, deployment on the API server, policies), the contents of the image, and one server.

| module | shows |
|---|---|
| `test_lint.py` | cfn-lint and checkov report nothing; elastick.yaml matches its parts and is small enough |
| `test_parameters.py` | parameters that are rejected before anything is created |
| `test_stacks.py` | the templates deploy on the API server: groups, tags, limits, a second cluster, schedule |
| `test_policies.py` | the roles allow the calls of the code, and no changes to other resources |
| `test_roles.py` | permissions of instances of launched stacks, on the simulated AWS of `tests/aws` |
| `test_watching.py` | alarms and dashboard use metrics that elastick publishes |
| `test_guide.py` | the guide's commands run; its table of replacements matches the schemas |
| `test_boot.py` | the boot script, with fake metadata, tools and mounts |
| `test_units.py` | the systemd units |
| `test_guest.py` | the units and the boot script, and every command of `deploy/server/README.md`, under a real systemd, in a guest kernel (root, x86-64 Debian) |
| `test_image.py` | the Packer template, parsed only, and the install script |
| `test_packages.py` | contents of the packages |
"""
