package csitrace

import (
	"fmt"
	"strings"
)

// unlocked are the calls for a volume that only read. They are no operation on the volume, and the
// specification wants none of them serialised: they may come at any time.
var unlocked = map[string]bool{
	"ControllerGetVolume":        true,
	"ControllerGetVolumeHealth":  true,
	"NodeGetVolumeHealth":        true,
	"NodeGetVolumeStats":         true,
	"ValidateVolumeCapabilities": true,
}

// volumeLock names the volume for which a call is an operation, "" for none. The halves of the plugin have
// locks of their own, and so has each node: several nodes may have one volume.
func volumeLock(c *Call) string {
	id := volumeOf(c)
	switch {
	case unlocked[c.RPC]:
		return ""
	case c.RPC == "CreateVolume":
		return "volume of name " + nameOf(c)
	case id == "":
		return ""
	case strings.HasPrefix(c.RPC, "Node"):
		return "volume " + id + " on node " + c.Node
	}
	return "volume " + id
}

// snapshotLock names the snapshot for which a call is an operation, "" for none.
func snapshotLock(c *Call) string {
	switch c.RPC {
	case "CreateSnapshot":
		return "snapshot of name " + nameOf(c)
	case "DeleteSnapshot":
		return "snapshot " + snapshotOf(c)
	}
	return ""
}

func locksOf(c *Call) (objects []string) {
	for _, object := range []string{volumeLock(c), snapshotLock(c)} {
		if object != "" {
			objects = append(objects, object)
		}
	}
	return append(objects, groupLocks(c)...)
}

func overlappedVolume(l *ledger, c *Call) string { return l.overlapped(volumeLock(c)) }

func overlappedSnapshot(l *ledger, c *Call) string { return l.overlapped(snapshotLock(c)) }

func (l *ledger) overlapped(object string) string {
	other := l.inFlight[object]
	if object == "" || other == nil {
		return ""
	}
	return fmt.Sprintf("another call for %s is in flight: %s", object, other)
}
