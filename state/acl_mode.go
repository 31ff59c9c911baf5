package state

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// ACLMode returns the mode of access control of the cluster, and the index of the entry that stored it: off
// and 0 if none did.
func ACLMode(tx mvcc.Reader) (mode string, index uint64) {
	row := schema.ACLModes.First(tx)
	if row == nil {
		return access.ModeOff, 0
	}
	return row.Mode, row.ModifyIndex
}

// ACLModeChange stores the mode of the cluster. Without Loosen it only tightens, and only once there is a
// token: otherwise it changes nothing.
func ACLModeChange(tx *mvcc.WriteTx, p *access.ModeChange) error {
	if !slices.Contains(access.Modes, p.Mode) {
		return structs.Invalidf("the mode of access control is %q; expected off, log or enforce",
			structs.Cut(p.Mode, structs.MaxQuoted))
	}

	now, _ := ACLMode(tx)
	tightens := access.StricterMode(now, p.Mode) != now
	if p.Mode == now || !p.Loosen && !(tightens && ACLBootstrapped(tx) != 0) {
		return nil
	}
	schema.ACLModes.Put(tx, &access.ControlMode{Mode: p.Mode})
	return nil
}
