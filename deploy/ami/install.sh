#!/usr/bin/env bash
# Installs elastick on Amazon Linux 2023, Debian or Ubuntu, for an image or on a running EC2 instance.
#
#   install.sh [OPTION...] PACKAGE      PACKAGE is the .rpm or .deb of deploy/packages/build
#
#   --efs-utils FILE   amazon-efs-utils as a package; needed on Debian and Ubuntu, whose archives do not have it
#   --without-efs      no amazon-efs-utils: EFS only without TLS, or no EFS at all
#   --without-ssm      do not insist on the Systems Manager agent, which is the way in where SSH is off
#   --without-logs     no CloudWatch agent, which sends the units' journal to the stack's log group
#   --start            start at once, or again: on an instance that has its tags
#   --image            at the end, take away what must not be in an image: keys, host keys, ids, logs
#
# Can be run again; run with a newer package it upgrades. Nothing secret is asked for or left behind.
set -euo pipefail

efs_utils='' with_efs=yes with_ssm=yes with_logs=yes start='' image='' package=''

say() { printf '== %s\n' "$*"; }
die() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

while (($#)); do
  case $1 in
    --efs-utils) efs_utils=${2:?--efs-utils needs a file} && shift ;;
    --without-efs) with_efs='' ;;
    --without-ssm) with_ssm='' ;;
    --without-logs) with_logs='' ;;
    --start) start=yes ;;
    --image) image=yes ;;
    --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" && exit ;;
    -*) die "there is no option $1" ;;
    *) package=$1 ;;
  esac
  shift
done
[[ $EUID == 0 ]] || die "this needs root"
[[ -f $package ]] || die "the package is missing: install.sh [OPTION...] PACKAGE"
package=$(realpath "$package")
if [[ -n $efs_utils ]]; then efs_utils=$(realpath "$efs_utils"); fi

# shellcheck source=/dev/null
system=$(. /etc/os-release && printf '%s %s' "$ID" "${ID_LIKE:-}")
case " $system " in
  *" amzn "* | *" fedora "* | *" rhel "*) family=rpm ;;
  *" debian "* | *" ubuntu "*) family=deb ;;
  *) die "this is made for Amazon Linux, Debian and Ubuntu, not for $system" ;;
esac
[[ $package == *."$family" ]] || die "$package is no .$family package, which this system needs"

install_packages() {
  if [[ $family == rpm ]]; then
    dnf install --assumeyes --quiet "$@"
  else
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "$@"
  fi
}

say "tools"
if [[ $family == rpm ]]; then
  command -v curl >/dev/null || install_packages curl-minimal
  install_packages gawk nfs-utils util-linux awscli-2
else
  apt-get update --quiet
  install_packages curl gawk nfs-common util-linux
  # Not in every release's archive; without it tags come from the metadata service alone, and no DNS name is set.
  install_packages awscli || say "no awscli here: install the AWS CLI by hand if the stack sets a DNS name"
fi

if [[ -n $with_efs ]]; then
  say "amazon-efs-utils"
  if [[ -n $efs_utils ]]; then
    install_packages "$efs_utils"
  elif [[ $family == rpm ]]; then
    install_packages amazon-efs-utils
  else
    command -v mount.efs >/dev/null || die "amazon-efs-utils is not in the archive of $system: build it as" \
      "https://github.com/aws/efs-utils says and give it with --efs-utils, or say --without-efs"
  fi
fi

if [[ -n $with_logs ]]; then
  say "CloudWatch agent"
  if [[ $family == rpm ]]; then
    install_packages amazon-cloudwatch-agent
  else
    command -v amazon-cloudwatch-agent-ctl >/dev/null || [[ -x /opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl ]] ||
      say "no CloudWatch agent here: install it by hand if the journal is to go to the stack's log group"
  fi
fi

say "elastick"
install_packages "$package"
/usr/bin/elastick --version
/usr/bin/elastick tick --help | grep -q -- --require-mount || die "the package's elastick is too old for its units"

if [[ -n $with_ssm ]]; then
  say "Systems Manager agent"
  systemctl is-enabled --quiet amazon-ssm-agent.service 2>/dev/null ||
    systemctl is-enabled --quiet snap.amazon-ssm-agent.amazon-ssm-agent.service 2>/dev/null ||
    die "the Systems Manager agent is not enabled: install it, or say --without-ssm (then SSH is the only way in)"
fi

say "units"
systemctl enable elastick-boot.service
if [[ -n $start ]]; then
  systemctl daemon-reload
  # What runs already goes on with the new version; a node hands its rows over first.
  systemctl try-restart --no-block elastick-tick.service elastick-rdb.service
  systemctl restart --no-block elastick-boot.service
fi

if [[ -n $image ]]; then
  say "cleaning for the image"
  rm -f /etc/elastick/env /root/.bash_history /home/*/.bash_history
  rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys /etc/ssh/ssh_host_*
  if command -v cloud-init >/dev/null; then cloud-init clean --logs --seed; fi
  if [[ $family == rpm ]]; then dnf clean all --quiet; else apt-get clean; fi
  rm -rf /var/log/journal/* /var/log/elastick/*
  : >/etc/machine-id
  sync
fi
say "done"
