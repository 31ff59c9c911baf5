package validate

import (
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

// The ID of a plugin names files and directories of nodes, so it is no path (CVE-2026-7474 of the peer).
func TestPluginID_IsNoPath(t *testing.T) {
	for _, id := range []string{
		".", "..", "../x", "../../../../bin/ls", "/bin/ls", "a/../../b", "a/b", "..a", "a..", `..\x`, "a\x00b", "-x",
		"%2e%2e", "a b", "a\nb",
	} {
		j := testJob()
		plugin(func(c *structs.CSIPluginConfig) { c.ID = id })(j)
		if Job(j) == nil {
			t.Errorf("a job may serve the plugin %q", id)
		}
		v := testVolume()
		v.PluginID = id
		if Volume(v) == nil {
			t.Errorf("a volume may be of the plugin %q", id)
		}
		if PluginConfig(&storage.PluginSettingsRequest{ID: id}) == nil {
			t.Errorf("there may be settings for the plugin %q", id)
		}
	}
}
