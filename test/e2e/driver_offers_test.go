package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The driver of another project has snapshots, clones, capacity by a parameter, attachments and the condition
// of its volumes.
func TestDriver_OfAnotherProjectOffersSnapshotsCapacityAndConditions(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	driver := filepath.Join(a.dir, "driver")
	err := os.Mkdir(driver, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	buildDriver(t, driver)
	a.args = append(a.args, "-config", a.writeFile("driver-agent.hcl", chrootConfig(driver)),
		"-config", a.writeFile("stats.hcl", `client { volume_stats_interval = "10s" }`))
	a.start()
	a.must("job", "run", a.writeFile("driver.hcl", strings.Replace(driverJob, `"--v=5",`,
		`"--v=5", "--enable-attach", "--capacity", "fast=100Mi",`, 1)))
	a.healthyNodes("driver", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name       = "fast"
plugin_id  = "driver"
binding    = "first-consumer"
parameters = { kind = "fast" }
`))
	a.must("volume", "create", a.classVolume("data", `capacity_min = "32MiB"`))

	const write = "head -c 65536 /dev/urandom > /data/f; sync"
	first := a.sumOf("data", write)
	a.must("volume", "snapshot", "create", "data", "before")
	second := a.sumOf("data", write)
	if first == second {
		t.Fatalf("two writes have the same sum %s", first)
	}
	out := a.must("volume", "snapshot", "list", "-plugin", "driver")
	if strings.Count(out, "before") != 1 {
		t.Errorf("the snapshots of the driver are\n%s", out)
	}
	a.must("volume", "create", a.classVolume("restored", `snapshot = "before"`))
	a.must("volume", "create", a.classVolume("copy", `clone = "data"`, `capacity_min = "32MiB"`))
	if got := a.sumOf("restored", "true"); got != first {
		t.Errorf("the restored volume has the sum %s, want %s", got, first)
	}
	if got := a.sumOf("copy", "true"); got != second {
		t.Errorf("the clone has the sum %s, want %s", got, second)
	}

	// Three volumes of 32 MiB leave 4 MiB of the 100 MiB.
	asks := "class = \"fast\"\n      size = \"16MiB\""
	more := a.writeFile("more.hcl", unprivilegedJob("more", asks))
	eventually(t, "the plan knows the capacity", func() error {
		out, err := a.run("job", "plan", more)
		if strings.Contains(out, "class fast has 4.0 MiB left in topology.hostpath.csi/node=") {
			return nil
		}
		return fmt.Errorf("the plan says %w:\n%s", err, out)
	})
	a.must("job", "run", "-detach", more)
	a.must("volume", "delete", "copy")
	a.awaitOutput(a.awaitRunning("more", 1)[0].ID, unprivilegedOutput)

	// The driver looks for mounts below the directory of Kubernetes alone.
	a.awaitStatus("more.g.data", "abnormal: The volume isn't mounted")
	a.awaitStatus("more.g.data", "attached")

	a.must("job", "stop", "-purge", "more")
	a.must("volume", "snapshot", "delete", "before")
	for _, id := range []string{"data", "restored", "more.g.data"} {
		a.awaitFree(id)
		a.must("volume", "delete", id)
	}
	if left := a.driverSizes(); len(left) > 0 {
		t.Errorf("the driver still has volumes of the sizes %v", left)
	}
	a.must("job", "stop", "-purge", "driver")
}

// classVolume writes the file of a volume of the class fast, with some arguments.
func (a *agent) classVolume(id string, arguments ...string) string {
	return a.writeFile(id+".hcl", fmt.Sprintf(`
id    = %q
class = "fast"
%s
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`, id, strings.Join(arguments, "\n")))
}
