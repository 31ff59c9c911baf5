package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/test/kit"
)

// peerDemo is the directory of the peer's demonstration of CSI in its module.
func peerDemo(t *testing.T) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/nomad")
	list.Dir = "../peer"
	out, err := list.Output()
	if err != nil {
		t.Fatalf("looking for the peer's module: %v", err)
	}
	module := strings.TrimSpace(string(out))
	if module == "" {
		kit.SkipLacking(t, "the peer's module is not in the module cache: scripts/peer-plugins.sh")
	}
	return filepath.Join(module, "demo", "csi", "hostpath")
}

// TestDocker_RunsTheDemoOfThePeer runs the job files of the peer's demonstration as they are published: a
// vendor's plugin, and two containers, each with a volume and a port of its own. The test changes the file of
// the volume as the demonstration does. The images have the names of the jobs: a later version of the plugin,
// and the tests' program in place of a database.
func TestDocker_RunsTheDemoOfThePeer(t *testing.T) {
	t.Parallel()
	demo := peerDemo(t)
	d := dockertest.StartBridged(t)
	importVendor(t, d, "quay.io/k8scsi/hostpathplugin:v1.2.0")
	d.Import("redis:7", `ENTRYPOINT ["/program", "cat:/proc/mounts", "trap:0"]`)
	a := dockerAgent(t, d, `network_interface = "lo"`)
	a.must("job", "run", filepath.Join(demo, "plugin.nomad"))
	a.healthyNodes("hostpath-plugin0", 1)
	volume, err := os.ReadFile(filepath.Join(demo, "hostpath.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"test-volume[0]", "test-volume[1]"}
	for _, id := range ids {
		text := strings.ReplaceAll(string(volume), "VOLUME_NAME", id)
		a.must("volume", "create", a.writeFile("volume.hcl", text))
	}
	a.must("job", "run", filepath.Join(demo, "redis.nomad"))
	for _, alloc := range a.awaitRunning("example", len(ids)) {
		out := a.awaitOutput(alloc.ID, "ready\n")
		_, mount, _ := strings.Cut(out, " /alloc/volume0 ")
		if fields := strings.Fields(mount); len(fields) < 2 || !strings.HasPrefix(fields[1], "ro,") {
			t.Errorf("the volume is not mounted read-only: %q", out)
		}
		if out := a.must("alloc", "status", alloc.ID); !strings.Contains(out, "127.0.0.1:") {
			t.Errorf("the allocation has no port:\n%s", out)
		}
	}
	a.stopAndCheckClean(ids, "example")
	for _, id := range ids {
		a.mustEventually("volume", "delete", id) // once it is detached
	}
	a.must("job", "stop", "-purge", "csi-plugin")
}
