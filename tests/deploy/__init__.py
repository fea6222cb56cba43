"""What is deployed: the templates (linted, deployed on the API server, their policies read), and what the image holds.

| module | shows |
|---|---|
| `test_lint.py` | cfn-lint and checkov have nothing to say; elastick.yaml is made of its parts and small enough |
| `test_parameters.py` | what is refused before anything is created |
| `test_stacks.py` | the templates deploy on the API server: groups, tags, limits, a second cluster, schedule |
| `test_policies.py` | the roles allow what the code calls, and change nothing of others |
| `test_roles.py` | what instances of launched stacks may and may not do, on the stand-in of `tests/aws` |
| `test_watching.py` | alarms and dashboard look at metrics that elastick publishes |
| `test_guide.py` | the guide's commands run; its table of what a change replaces is what the schemas say |
| `test_boot.py` | the boot script, with metadata, tools and mounts that the test plays |
| `test_units.py` | the systemd units |
| `test_guest.py` | the units and the boot script under a real systemd, in a guest kernel (root, x86-64 Debian) |
| `test_image.py` | the Packer template, read by a parser of its language, and the install script |
| `test_packages.py` | what the packages hold |
"""
