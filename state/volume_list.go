package state

import (
	"cmp"

	"berth/structs"
)

// Stubs makes the stubs of many volumes, each as VolumeStub does. It is quick when the volumes come in the
// order of their keys: then their lines are gone through once, side by side with them, and what they show
// of a plugin is looked up once.
func Stubs(tx *Read) func(*structs.CSIVolume) *structs.CSIVolumeListStub {
	return stubs(tx, func() *structs.CSIVolumeListStub { return new(structs.CSIVolumeListStub) })
}

// PassingStubs is Stubs for who is done with a stub before asking for the next: it is one and the same.
func PassingStubs(tx *Read) func(*structs.CSIVolume) *structs.CSIVolumeListStub {
	one := new(structs.CSIVolumeListStub)
	return stubs(tx, func() *structs.CSIVolumeListStub { return one })
}

func stubs(tx *Read, next func() *structs.CSIVolumeListStub) func(*structs.CSIVolume) *structs.CSIVolumeListStub {
	if tx.watching {
		// Who waits is to wait for the lines of these volumes alone.
		return func(v *structs.CSIVolume) *structs.CSIVolumeListStub { return VolumeStub(tx, v) }
	}
	along := lineCursor{tx: tx}
	looks := map[string]pluginLook{}
	return func(v *structs.CSIVolume) *structs.CSIVolumeListStub {
		s := next()
		*s = bareStub(v)
		countClaims(s, along.of(v))
		look, known := looks[v.PluginID]
		if !known {
			look = lookOf(tx, v.PluginID)
			looks[v.PluginID] = look
		}
		look.show(v, s)
		return s
	}
}

// lineCursor walks through the lines volume by volume.
type lineCursor struct {
	tx   *Read
	rows *cursor[volumeLine]
	head *volumeLine // the next row, nil at the end
	last *structs.CSIVolume
}

// fewSteps is how many rows are stepped over rather than sought past.
const fewSteps = 16

func (k *lineCursor) of(v *structs.CSIVolume) []classCount {
	if k.last == nil || compareVolume(k.last.Namespace, k.last.ID, v) > 0 {
		k.seek(v)
	}
	k.last = v
	for steps := 0; k.head != nil && compareVolume(k.head.Namespace, k.head.VolumeID, v) < 0; steps++ {
		if steps == fewSteps {
			k.seek(v)
			break
		}
		k.step()
	}
	if k.head != nil && compareVolume(k.head.Namespace, k.head.VolumeID, v) == 0 {
		return k.head.Classes
	}
	return nil
}

func (k *lineCursor) step() { k.head = k.rows.Next() }

func (k *lineCursor) seek(v *structs.CSIVolume) {
	k.rows = lines.from(k.tx, v.Namespace, v.ID)
	k.step()
}

func compareVolume(ns, id string, v *structs.CSIVolume) int {
	return cmp.Or(cmp.Compare(ns, v.Namespace), cmp.Compare(id, v.ID))
}
