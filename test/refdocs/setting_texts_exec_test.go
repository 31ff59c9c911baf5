package refdocs

const volumeStatsInterval = "how often the use of each mounted volume is measured, `10s` to `1h`, see [Full " +
	"volumes](../storage/health.md#full-volumes)"

// execTexts explains the block client.drivers.exec.
var execTexts = blockText{Block: "client.drivers.exec", Intro: "Isolated processes, see [Isolation of " +
	"tasks](../operations/drivers.md#isolation-of-tasks).", Settings: []settingText{
	{
		"chroot_env", "`/bin /etc /lib* /sbin /usr`",
		"a map: the paths of the host that tasks see read-only, and their places",
	},
	{
		"hidden", "private files in `/etc`",
		"files and directories of the host that tasks see empty, at most 256; a list replaces the default, and the " +
			"agent's own files are always hidden, see [Files of the host](../operations/drivers.md#files-of-the-host)",
	},
	{"cgroup_parent", "", "the cgroup below which each task has its own"},
	{"pids_limit", "", "processes and threads that a task may have; -1 is no limit"},
	{"max_open_files", "", "files that a task may have open"},
	{"seccomp", "", "`unconfined` lets tasks make every system call"},
}}
