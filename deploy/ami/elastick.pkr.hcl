# Images of elastick for x86_64 and arm64, from Amazon Linux 2023.
#
#   packer init deploy/ami
#   packer build -var packages=target/packages -var instance_profile=PROFILE deploy/ami
#
# PROFILE is an instance profile with AmazonSSMManagedInstanceCore: the builder is reached through Session Manager, not by SSH
# from the network. `packages` holds the .rpm of each architecture that is built; -only='*.arm64' builds one.

packer {
  required_version = ">= 1.10"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0, < 2.0.0"
    }
  }
}

variable "region" {
  type    = string
  default = "eu-west-1"
}

variable "packages" {
  type        = string
  description = "Directory of elastick-VERSION-1.x86_64.rpm and elastick-VERSION-1.aarch64.rpm"
}

variable "version" {
  type    = string
  default = "0.1.0"
}

variable "instance_profile" {
  type        = string
  description = "Instance profile of the builder, with AmazonSSMManagedInstanceCore"
}

variable "subnet" {
  type        = string
  description = "Subnet of the builder, with a way to the package repositories; empty for the default VPC's"
  default     = ""
}

variable "kms_key" {
  type        = string
  description = "Key that encrypts the image; empty for the account's default key for EBS"
  default     = ""
}

locals {
  stamp = formatdate("YYYYMMDD-hhmm", timestamp())
}

source "amazon-ebs" "al2023" {
  region    = var.region
  subnet_id = var.subnet

  communicator              = "ssh"
  ssh_username              = "ec2-user"
  ssh_interface             = "session_manager"
  ssh_clear_authorized_keys = true
  iam_instance_profile      = var.instance_profile

  # The builder, and with imds_support every instance of the image, answers metadata only with a token.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  imds_support = "v2.0"

  encrypt_boot = true
  kms_key_id   = var.kms_key
  launch_block_device_mappings {
    device_name           = "/dev/xvda"
    volume_type           = "gp3"
    volume_size           = 8
    encrypted             = true
    kms_key_id            = var.kms_key
    delete_on_termination = true
  }

  ena_support = true
  tags = {
    Name    = "elastick"
    Version = var.version
    Base    = "{{ .SourceAMIName }}"
  }
  run_tags = {
    Name = "elastick image builder"
  }
}

build {
  source "amazon-ebs.al2023" {
    name          = "x86_64"
    ami_name      = "elastick-${var.version}-x86_64-${local.stamp}"
    instance_type = "t3.small"
    source_ami_filter {
      owners      = ["amazon"]
      most_recent = true
      filters = {
        name                = "al2023-ami-2023.*-kernel-6.1-x86_64"
        architecture        = "x86_64"
        root-device-type    = "ebs"
        virtualization-type = "hvm"
      }
    }
  }

  source "amazon-ebs.al2023" {
    name          = "arm64"
    ami_name      = "elastick-${var.version}-arm64-${local.stamp}"
    instance_type = "t4g.small"
    source_ami_filter {
      owners      = ["amazon"]
      most_recent = true
      filters = {
        name                = "al2023-ami-2023.*-kernel-6.1-arm64"
        architecture        = "arm64"
        root-device-type    = "ebs"
        virtualization-type = "hvm"
      }
    }
  }

  provisioner "file" {
    source      = "${path.root}/install.sh"
    destination = "/tmp/install.sh"
  }

  provisioner "file" {
    only        = ["amazon-ebs.x86_64"]
    source      = "${var.packages}/elastick-${var.version}-1.x86_64.rpm"
    destination = "/tmp/elastick.rpm"
  }

  provisioner "file" {
    only        = ["amazon-ebs.arm64"]
    source      = "${var.packages}/elastick-${var.version}-1.aarch64.rpm"
    destination = "/tmp/elastick.rpm"
  }

  provisioner "shell" {
    inline = [
      "set -eu",
      "sudo dnf upgrade --assumeyes --quiet",
      "sudo bash /tmp/install.sh --image /tmp/elastick.rpm",
      "rm -f /tmp/install.sh /tmp/elastick.rpm",
    ]
  }
}
