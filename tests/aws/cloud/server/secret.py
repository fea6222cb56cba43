"""CloudFormation's AWS::SecretsManager::Secret, which the unpatched server skips. Importing this makes the type known."""

import json

from moto.core.common_models import CloudFormationModel
from moto.secretsmanager.models import secretsmanager_backends


class Secret(CloudFormationModel):
    def __init__(self, arn):
        self.arn = arn

    @property
    def physical_resource_id(self):
        return self.arn

    @staticmethod
    def cloudformation_name_type():
        return "Name"

    @staticmethod
    def cloudformation_type():
        return "AWS::SecretsManager::Secret"

    @classmethod
    def create_from_cloudformation_json(cls, name, template, account, region, **_):
        wanted = template["Properties"]
        backend = secretsmanager_backends[account][region]
        generate = wanted["GenerateSecretString"]
        password = backend.get_random_password(
            password_length=int(generate["PasswordLength"]),
            exclude_characters="",
            exclude_numbers=False,
            exclude_punctuation=generate["ExcludePunctuation"] in (True, "true"),
            exclude_uppercase=False,
            exclude_lowercase=False,
            include_space=False,
            require_each_included_type=True,
        )
        made = backend.create_secret(
            name=name,
            secret_string=json.loads(password)["RandomPassword"],
            secret_binary=None,
            description=wanted.get("Description"),
            tags=[],
            kms_key_id=wanted.get("KmsKeyId"),
            client_request_token=None,
            replica_regions=[],
            force_overwrite=False,
        )
        return cls(json.loads(made)["ARN"])

    @classmethod
    def delete_from_cloudformation_json(cls, arn, template, account, region):
        secretsmanager_backends[account][region].delete_secret(arn, None, True)
