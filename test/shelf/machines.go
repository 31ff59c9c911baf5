package shelf

import (
	"os"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// hasMachines reports whether the test offers the mount tables of its machines.
func (s *shelf) hasMachines() bool {
	_, err := os.Stat(s.path("machines"))
	return err == nil
}

// mayBeMounted reports whether a volume that was staged on a node may still be mounted there. A machine that
// has lost its power has no mounts, and others than the plugin unmount, too. Only the mount tables of the
// machines show that, if the test offers them.
func (s *shelf) mayBeMounted(id, node string) bool {
	if !s.hasMachines() {
		return true
	}
	table, err := os.Open(s.path("machines", node))
	if err != nil {
		return false // it is off
	}
	defer func() { _ = table.Close() }()
	infos, err := mountinfo.GetMountsFromReader(table, func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasSuffix(i.Root, "/vol/"+id+"/files"), false
	})
	return err == nil && len(infos) > 0
}
