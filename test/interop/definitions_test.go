package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// TestClient_ChangesNamespaces changes namespaces of a real agent with the public client.
func TestClient_ChangesNamespaces(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	_, err := c.Namespaces().Register(&public.Namespace{
		Name:         "prod",
		Description:  "Production",
		Meta:         map[string]string{"owner": "storage"},
		Capabilities: &public.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, meta, err := c.Namespaces().Info("prod", nil)
	if checkNoError(t, "info", err) &&
		(n.Description != "Production" || n.Meta["owner"] != "storage" || n.CreateIndex == 0 ||
			len(n.Capabilities.DisabledTaskDrivers) != 1 || meta.LastIndex == 0) {
		t.Errorf("got namespace %+v", n)
	}
	// The client can write the namespace that it has read.
	_, err = c.Namespaces().Register(n, nil)
	checkNoError(t, "register again", err)
	all, _, err := c.Namespaces().PrefixList("pr", nil)
	if checkNoError(t, "list", err) && (len(all) != 1 || all[0].Name != "prod") {
		t.Errorf("got namespaces %+v", all)
	}
	job := shellJob("rejected", "sleep 600")
	*job.TaskGroups[0].Tasks[0] = public.Task{
		Name:   "app",
		Driver: "raw_exec",
		Config: map[string]any{"command": "true"},
	}
	job.Namespace = new("prod")
	_, _, err = c.Jobs().Register(job, &public.WriteOptions{Namespace: "prod"})
	if err == nil || !strings.Contains(err.Error(), `does not allow the driver "raw_exec"`) {
		t.Errorf("a job with a disabled driver: %v", err)
	}
	job.Namespace = new("nowhere")
	_, _, err = c.Jobs().Register(job, &public.WriteOptions{Namespace: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), "berth namespace apply nowhere") {
		t.Errorf("a job in a namespace that does not exist: %v", err)
	}
	_, err = c.Namespaces().Register(&public.Namespace{Name: "q", Quota: "small"}, nil)
	if err == nil || !strings.Contains(err.Error(), `there is no quota "small"`) {
		t.Errorf("a namespace with a quota: %v", err)
	}
	_, err = c.Namespaces().Delete("prod", nil)
	checkNoError(t, "delete", err)
	_, _, err = c.Namespaces().Info("prod", nil)
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a deleted namespace: %v", err)
	}
}

// TestClient_ChangesNodePools changes node pools of a real agent with the public client.
func TestClient_ChangesNodePools(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	_, err := c.NodePools().Register(&public.NodePool{
		Name:        "gpu",
		Description: "Nodes with a GPU",
		SchedulerConfiguration: &public.NodePoolSchedulerConfiguration{
			SchedulerAlgorithm: public.SchedulerAlgorithmSpread,
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := c.NodePools().Info("gpu", nil)
	if checkNoError(t, "info", err) &&
		(p.Description != "Nodes with a GPU" || p.CreateIndex == 0 ||
			p.SchedulerConfiguration.SchedulerAlgorithm != public.SchedulerAlgorithmSpread) {
		t.Errorf("got node pool %+v", p)
	}
	_, err = c.NodePools().Register(p, nil)
	checkNoError(t, "register again", err)
	nodes, _, err := c.NodePools().ListNodes("gpu", nil)
	if checkNoError(t, "nodes", err) && len(nodes) != 0 {
		t.Errorf("got nodes %+v", nodes)
	}
	p.SchedulerConfiguration.MemoryOversubscriptionEnabled = new(true)
	_, err = c.NodePools().Register(p, nil)
	checkNoError(t, "register with oversubscription", err)
	p, _, err = c.NodePools().Info("gpu", nil)
	if checkNoError(t, "info", err) && !*p.SchedulerConfiguration.MemoryOversubscriptionEnabled {
		t.Errorf("got node pool %+v", p)
	}
	_, err = c.NodePools().Delete("gpu", nil)
	checkNoError(t, "delete", err)
	_, err = c.NodePools().Delete("all", nil)
	if err == nil || !strings.Contains(err.Error(), "cannot be deleted") {
		t.Errorf("deleting a built-in pool: %v", err)
	}
}

func TestPeersCommandLine_ChangesNamespacesAndNodePools(t *testing.T) {
	t.Parallel()
	peer, _ := connectPeer(t)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	peer.run("namespace", "apply", "-description", "Production", "prod")
	peer.checkOutput(peer.run("namespace", "list"), "default", "prod", "Production")
	peer.run("namespace", "apply", file("n.hcl", `
name = "prod"
meta { owner = "storage" }
capabilities { disabled_task_drivers = ["raw_exec"] }
`))
	peer.checkOutput(peer.run("namespace", "status", "prod"), "raw_exec")
	peer.checkOutput(peer.run("namespace", "inspect", "prod"), `"owner": "storage"`)
	peer.run("namespace", "delete", "prod")

	peer.run("node", "pool", "apply", file("p.hcl", `
node_pool "gpu" {
  description = "Nodes with a GPU"
  meta { rack = "r1" }
}
`))
	peer.checkOutput(peer.run("node", "pool", "list"), "all", "default", "gpu")
	peer.checkOutput(peer.run("node", "pool", "info", "gpu"), "Nodes with a GPU", "rack")
	peer.run("node", "pool", "nodes", "default")
	peer.run("node", "pool", "jobs", "gpu")
	peer.run("node", "pool", "delete", "gpu")
}
