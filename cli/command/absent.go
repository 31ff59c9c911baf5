package command

import "strings"

// absent has the commands and groups of the dialect that berth lacks, with what it has in place of each.
var absent = map[string]string{
	"alloc pause": "berth runs no task by a schedule; " +
		"`berth job stop` and `berth job start` act at once",
	"alloc-status":     "see `berth alloc status -h`",
	"check":            "see `berth status -h`; berth doctor checks the machine",
	"client-config":    "nodes learn the servers from each heartbeat",
	"debug":            "see `berth operator debug -h`",
	"eval-status":      "see `berth eval status -h`",
	"job from-compose": "see `berth-convert compose -h`",
	"license":          "berth needs no license",
	"migrate":          "see `berth-convert nomad -h`",
	"node-drain":       "see `berth node drain -h`",
	"node-status":      "see `berth node status -h`",
	"operator client-state": "the files of a node have a form of their own; " +
		"`berth operator debug` saves the view of the agent",
	"operator raft migrate-backend": "the log has one form",
	"operator raft state": "the files of a server have a form of their own; " +
		"`berth operator snapshot state` shows the rows of an archive",
	"operator scheduler set-num-schedulers": "one loop of the leader processes all evaluations; " +
		"to pause it, see `berth operator scheduler set-config -h`",
	"operator snapshot agent": "the servers save archives by themselves; " +
		"see `snapshot_agent` in the settings",
	"operator utilization": "berth counts no use for a license; see `berth operator metrics -h`",
	"recommendation": "berth recommends no resources; " +
		"`berth alloc status -stats` shows the use",
	"sentinel":           "berth has rules in CEL; see `berth admission -h`",
	"server-force-leave": "see `berth server force-leave -h`",
	"server-join":        "see `berth server join -h`",
	"server-members":     "see `berth server members -h`",
	"windows":            "berth runs on Linux alone",
}

// insteadOf returns what berth has in place of a command of the dialect, or "". The path of the command may
// have further words.
func insteadOf(path string) string {
	for ; path != ""; path = path[:max(0, strings.LastIndex(path, " "))] {
		instead := absent[path]
		if instead != "" {
			return instead
		}
	}
	return ""
}
