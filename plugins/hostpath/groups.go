package hostpath

import (
	"berth/plugins/hostpath/disk"
)

// groupService serves the calls about group snapshots.
func (d *driver) groupService() *groupController {
	c := &controller{driver: d}
	return &groupController{groupDriver: groupDriver{
		Store:    func() *disk.Store { return d.store },
		Lock:     d.lockKeys,
		Record:   d.newRecord,
		Volume:   d.volume,
		Freeze:   c.freezeForGroup,
		Erase:    d.eraseSnapshot,
		Describe: c.describeSnapshot,
		Foreign:  d.otherNodeError,
		Crash:    func(point string) { crash(point) },
		Copy: func(n *disk.Snapshot, v *disk.Volume) (*disk.Snapshot, error) {
			return c.createSnapshot(n, func(to string) error { return c.copyData(v.Type, d.dataOf(v), to) })
		},
	}}
}

// freezeForGroup is quiesce for a copy that has to be of the same instant as copies of other volumes: it
// rejects each volume with a writer whose writes it cannot stop.
func (d *controller) freezeForGroup(v *disk.Volume) (thaw func() error, err error) {
	now := v.EditCopy()
	frozen := now.Type == disk.Image && now.Stage != nil && !now.Stage.Use.Block
	for path, t := range now.Targets {
		if !t.ReadOnly && !frozen {
			return nil, disk.Preconditionf("it is written to at %s, and its writes cannot be stopped: only images "+
				"with a file system can be in a group while they are used", path)
		}
	}
	return d.quiesce(v)
}

// checkAlone rejects a member of a group, which is deleted with it.
func checkAlone(n *disk.Snapshot) error {
	if n.Group != "" {
		return disk.Invalidf("snapshot %s is a member of group snapshot %s, and is deleted with it", n.ID, n.Group)
	}
	return nil
}
