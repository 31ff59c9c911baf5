package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
)

// preferringJob writes a job that prefers the node n0, or has to run there.
func (a *agent) preferringJob(name, rule string) string {
	return a.writeFile(name+".hcl", fmt.Sprintf(`
job %[1]q {
  group "g" {
    %[2]s {
      attribute = "${node.unique.name}"
      value     = "n0"
    }
    volume "v" {
      type            = "csi"
      source          = %[1]q
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }
      volume_mount {
        volume      = "v"
        destination = "/data"
      }
    }
  }
}
`, name, rule))
}

// awaitPlace waits until a job runs on a node.
func (a *agent) awaitPlace(job, node string) {
	a.t.Helper()
	eventually(a.t, "job "+job+" runs on "+node, func() error {
		if got := a.awaitRunning(job, 1)[0].NodeName; got != node {
			return fmt.Errorf("it runs on %s", got)
		}
		return nil
	})
}

// The driver of a node takes fewer volumes than before, and tells so only when it is asked. The node asks it
// once a volume is one too many. From then on a job that prefers this node is placed on another one, until
// the node has a free place.
func TestDuty_K39_K40_ALowerLimitMovesPlacements(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	c := newServersOf(t, binary, 1)
	for range 2 {
		c.addNode().allowRaw().start()
	}
	a := c.servers[0]
	a.must("job", "run", "-detach", st.writePluginJob(a, "shelf", "system", "monolith"))
	a.healthyNodes("shelf", 2)
	for _, id := range []string{"first", "second", "third", "fourth"} {
		st.createVolume(a, id, 300)
	}
	const prefers = "affinity"
	second := a.preferringJob("second", prefers)
	a.must("job", "run", "-detach", a.preferringJob("first", prefers))
	a.awaitPlace("first", "n0")
	a.must("job", "run", "-detach", second)
	a.awaitPlace("second", "n0")
	a.must("job", "stop", "second")
	a.awaitFree("second")

	limit := filepath.Join(st.root, "limit")
	err := os.Mkdir(limit, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(limit, "n0"), []byte("1"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The node learns of its limit by the volume that is one too many. From then on a job that has to run there
	// has no place.
	const requires = "constraint"
	a.must("job", "run", "-detach", a.preferringJob("third", requires))
	n0 := a.nodeID("n0")
	eventually(t, "the servers know the limit", func() error {
		p, err := get[*structs.CSIPlugin](a, "/v1/plugin/csi/shelf")
		if err == nil && p.Nodes[n0].NodeInfo.MaxVolumes != 1 {
			err = fmt.Errorf("the plugin is %+v", p.Nodes[n0])
		}
		return err
	})
	if !strings.Contains(st.read("calls"), "n0 NodeStageVolume shelf-third ResourceExhausted") {
		t.Error("the driver has not rejected the third volume")
	}
	a.must("job", "run", "-detach", a.preferringJob("fourth", requires))
	eventually(t, "the fourth job has no place", func() error {
		out, err := a.run("job", "why", "fourth")
		if err == nil && !strings.Contains(out, "CSI plugin shelf has its limit of 1 volumes on this node") {
			err = fmt.Errorf("why says:\n%s", out)
		}
		return err
	})
	a.must("job", "stop", "fourth")
	a.must("job", "stop", "third")
	a.awaitFree("third")

	a.must("job", "run", "-detach", second)
	a.awaitPlace("second", "n1")
	a.must("job", "stop", "first")
	a.awaitFree("first")
	a.must("job", "run", "-detach", a.preferringJob("third", requires))
	a.awaitPlace("third", "n0")
	c.stopAndDelete(st, "first", "second", "third", "fourth")
}
