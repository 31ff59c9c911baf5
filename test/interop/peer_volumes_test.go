package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// exampleVolume is the ID of the volume in the example of the peer's command line.
const exampleVolume = "ebs_prod_db1"

// TestPeersCommandLine_ManagesVolumes runs the verbs about volumes and their snapshots with the plugin of the
// examples.
func TestPeersCommandLine_ManagesVolumes(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	peer.dir = t.TempDir()
	node := awaitReadyNode(t, c).ID
	plugin := runPlugin(t, c)
	t.Cleanup(func() { _ = c.CSIVolumes().Delete(exampleVolume, nil) })

	peer.checkOutput(peer.run("volume", "init"), "volume.hcl")
	file := filepath.Join(peer.dir, "volume.hcl")
	editExampleVolume(t, file, plugin)
	peer.checkOutput(peer.run("volume", "create", file), "Created external volume", exampleVolume)
	external := field(peer.run("volume", "status", exampleVolume), "External ID")
	v, _, err := c.CSIVolumes().Info(exampleVolume, nil)
	if err != nil || external == "" || v.ExternalID != external || v.PluginID != plugin || v.Name != "database" {
		t.Fatalf("the volume %q is %+v, %v", external, v, err)
	}
	peer.checkOutput(peer.run("volume", "status"), exampleVolume, plugin)
	peer.checkOutput(peer.run("plugin", "status"), plugin, "1/1")
	peer.checkOutput(peer.run("plugin", "status", plugin), "Nodes Healthy        = 1", node[:8])

	testPeerDetachesAVolume(peer, c, node)
	testPeerTakesSnapshots(peer, c, plugin)

	peer.checkOutput(peer.run("volume", "deregister", exampleVolume), "Successfully deregistered")
	checkNoVolume(t, c, exampleVolume, nil)
	text, err := os.ReadFile(file)
	checkNoError(t, "reading the file", err)
	text = append(text, "\nexternal_id = \""+external+"\"\n"...)
	checkNoError(t, "writing the file", os.WriteFile(file, text, 0o600))
	peer.checkOutput(peer.run("volume", "register", file), exampleVolume, "registered")
	v, _, err = c.CSIVolumes().Info(exampleVolume, nil)
	if err != nil || v.ExternalID != external {
		t.Errorf("the registered volume is %+v, %v", v, err)
	}
	peer.checkOutput(peer.run("volume", "delete", exampleVolume), "Successfully deleted")
	checkNoVolume(t, c, exampleVolume, nil)
	peer.exits(1, "volume", "delete", exampleVolume)
}

// editExampleVolume leaves in the example what the plugin of the examples has.
func editExampleVolume(t *testing.T, file, plugin string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(external_id|snapshot_id) .*$`).ReplaceAllString(string(b), "")
	blocks := `(?ms)^(topology_request|mount_options|secrets|parameters|context) \{.*?^\}$`
	text = regexp.MustCompile(blocks).ReplaceAllString(text, "")
	text = regexp.MustCompile(`capability \{[^}]*block-device[^}]*\}`).ReplaceAllString(text, "")
	text = strings.NewReplacer(`"plugin_id"`, `"`+plugin+`"`, "10GiB", "1MiB", "20G", "8MiB").Replace(text)
	checkNoError(t, "writing the file", os.WriteFile(file, []byte(text), 0o600))
}

// testPeerDetachesAVolume uses the volume by a job, and detaches it after the end of the job.
func testPeerDetachesAVolume(peer peerCLI, c *public.Client, node string) {
	t := peer.t
	t.Helper()
	job := quickJob("peer-writer", "echo data >/data/file; sleep 600")
	volume, destination := "data", "/data"
	job.TaskGroups[0].Volumes = map[string]*public.VolumeRequest{volume: {
		Name:           volume,
		Type:           "csi",
		Source:         exampleVolume,
		AccessMode:     "single-node-writer",
		AttachmentMode: "file-system",
	}}
	mount := &public.VolumeMount{Volume: &volume, Destination: &destination}
	job.TaskGroups[0].Tasks[0].VolumeMounts = []*public.VolumeMount{mount}
	alloc := runJob(t, c, job)
	peer.checkOutput(peer.run("volume", "status", exampleVolume), alloc.ID[:8], "running")
	peer.checkOutput(peer.exits(1, "volume", "detach", exampleVolume, node), alloc.ID)
	peer.exits(1, "volume", "deregister", exampleVolume)
	peer.exits(1, "volume", "delete", exampleVolume)

	stopJob(t, c, *job.ID)
	awaitAnswer(t, "the claim released", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		v, meta, err := c.CSIVolumes().Info(exampleVolume, q)
		return err == nil && len(v.WriteAllocs) == 0, meta, err
	})
	peer.run("volume", "detach", exampleVolume, node)
	peer.checkOutput(peer.run("volume", "status", exampleVolume), "No allocations placed")
	peer.exits(1, "volume", "detach", "none", node)
}

// testPeerTakesSnapshots runs the commands for snapshots, which name a snapshot by the ID that it has at its
// plugin.
func testPeerTakesSnapshots(peer peerCLI, c *public.Client, plugin string) {
	t := peer.t
	t.Helper()
	peer.checkOutput(peer.run("volume", "snapshot", "create", exampleVolume, "by-the-peer"), "snap-", "true")
	external := ""
	snapshots := func() int {
		t.Helper()
		resp, _, err := c.CSIVolumes().ListSnapshotsOpts(&public.CSISnapshotListRequest{PluginID: plugin})
		if err != nil {
			t.Fatal(err)
		}
		of := 0
		for _, s := range resp.Snapshots {
			if s.SourceVolumeID == exampleVolume || s.ExternalSourceVolumeID != "" && s.Name == "by-the-peer" {
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
