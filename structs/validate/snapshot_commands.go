package validate

import (
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/field"
)

// The bounds of structs.SnapshotCommands.Timeout.
const (
	minSnapshotTimeout = time.Second
	maxSnapshotTimeout = 10 * time.Minute
)

// CheckSnapshotCommands checks the commands around the snapshots of a volume, which is nil if only the node
// knows it.
func CheckSnapshotCommands(f field.Errors, c *structs.SnapshotCommands, v *structs.VolumeRequest) {
	if c == nil {
		return
	}

	f = f.At("snapshot")
	f.Require(v.NeedsClaim(), "snapshots are of CSI volumes that the servers know, and that volume_mount names "+
		"without placeholders; leave the block out")
	f.Require(len(c.Pre)+len(c.Post) > 0, "pre or post is required: a command as a list of its arguments")
	for _, command := range []struct {
		name      string
		arguments []string
	}{{"pre", c.Pre}, {"post", c.Post}} {
		if len(command.arguments) == 0 {
			continue
		}
		for _, argument := range command.arguments {
			f.CheckText(command.name, argument)
		}
		err := nodecalls.CheckExec(command.arguments)
		if err != nil {
			f.Addf("%s: %s", field.Text(command.name), field.Text(err.Error()))
		}
	}
	f.Require(c.Timeout >= minSnapshotTimeout && c.Timeout <= maxSnapshotTimeout,
		"timeout %s is not from %s to %s", c.Timeout, minSnapshotTimeout, maxSnapshotTimeout)
}
