package interop

import (
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// TestPeersCommandLine_ManagesSnapshotsOfAVolume runs the peer's commands for snapshots, which name a
// snapshot by the ID that it has at its plugin.
func TestPeersCommandLine_ManagesSnapshotsOfAVolume(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	awaitReadyNode(t, c)
	plugin := runPlugin(t, c)
	const id = "of-the-command-line"
	_, _, err := c.CSIVolumes().Create(volumeOfProvider(plugin, id, 1<<20), nil)
	checkNoError(t, "creating the volume", err)
	t.Cleanup(func() { _ = c.CSIVolumes().Delete(id, nil) })

	peer.checkOutput(peer.run("volume", "snapshot", "create", id, "by-the-peer"), "snap-", "true")
	external := ""
	snapshots := func() int {
		t.Helper()
		resp, _, err := c.CSIVolumes().ListSnapshotsOpts(&public.CSISnapshotListRequest{PluginID: plugin})
		if err != nil {
			t.Fatal(err)
		}
		of := 0
		for _, s := range resp.Snapshots {
			if s.SourceVolumeID == id || s.ExternalSourceVolumeID != "" && s.Name == "by-the-peer" {
				external = s.ID
				of++
			}
		}
		return of
	}
	if n := snapshots(); n != 1 {
		t.Fatalf("there are %d snapshots", n)
	}
	peer.checkOutput(peer.run("volume", "snapshot", "list", "-plugin", plugin), external[:8])
	peer.run("volume", "snapshot", "delete", plugin, external)
	if n := snapshots(); n != 0 {
		t.Errorf("%d snapshots are left", n)
	}
}
