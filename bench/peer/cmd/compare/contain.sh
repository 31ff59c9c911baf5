# Runs a command in a group of the kernel's CPU accounting that also has all groups which it makes for its tasks: for
# it, the group is the root of that hierarchy. The mounts of the command are its own, too.
# Usage: sh contain.sh GROUP COMMAND [ARG...]   GROUP: below the root of the hierarchy, which is shared with others
set -eu
group=$1
shift
echo $$ >"$group/cgroup.procs"
exec unshare --cgroup --mount --propagation private sh -c '
	root=$1
	shift
	umount "$root"
	mount -t cgroup -o cpuacct none "$root"
	mount --make-rshared /
	exec "$@"' contain "$(dirname "$group")" "$@"
