package csi

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
)

// EnsurePlugin returns the plugin's row. It puts the row for the first reference.
func EnsurePlugin(tx *mvcc.WriteTx, id string) *structs.CSIPluginRow {
	p := Plugin(tx, id)
	if p == nil {
		p = &structs.CSIPluginRow{ID: id}
		schema.Plugins.Put(tx, p)
	}
	return p
}

// DropUnusedPlugin deletes the plugin's row after its last reference.
func DropUnusedPlugin(tx *mvcc.WriteTx, id string) {
	p := Plugin(tx, id)
	if p == nil || PluginReferences(tx, id) != "" {
		return
	}
	schema.Plugins.Delete(tx, p)
	forgetSpace(tx, id)
	forgetDrifts(tx, id)
	ForgetHealth(tx, id)
	unblock.Delete(tx, structs.WakePlugin(id))
}

// PluginDelete succeeds if the plugin is gone. The plugin row is deleted with its last reference.
// PluginDelete rejects a plugin with references and names them.
func PluginDelete(tx *mvcc.WriteTx, p *structs.CSIPluginDeleteRequest) error {
	refs := PluginReferences(tx, p.ID)

	if refs != "" {
		return structs.Preconditionf("plugin %q is in use by %s", p.ID, refs)
	}
	return nil
}
