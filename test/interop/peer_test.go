package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"
)

// peerError matches the beginning of a line with an error that leaves the exit code of the peer's command at
// 0.
var peerError = regexp.MustCompile(`(?im)^(error|panic)`)

// peerCLI runs the command line of the peer (PEER_BIN, see scripts/peer.sh) against an agent.
type peerCLI struct {
	t    *testing.T
	bin  string
	addr string
	// token is the secret with which it calls, "" for none.
	token string
	dir   string // where it runs and writes files, "" for that of the test
}

// connectPeer returns the peer's command line for the agent of the tests, with a client of this agent. It
// skips the test without either.
func connectPeer(t *testing.T) (peerCLI, *public.Client) {
	t.Helper()
	bin := os.Getenv("PEER_BIN")
	if bin == "" {
		t.Skip("needs the peer's command line: PEER_BIN=$(scripts/peer.sh)")
	}
	c := connectToAgent(t)
	return peerCLI{t: t, bin: bin, addr: c.Address()}, c
}

// run fails the test if the command fails, panics or reports an error.
func (p peerCLI) run(args ...string) string {
	p.t.Helper()
	text := p.exits(0, args...)
	if peerError.MatchString(text) {
		p.t.Errorf("%s: an error in the output\n%s", strings.Join(args, " "), text)
	}
	return text
}

// exits fails the test unless the command ends with an exit code. It returns the output.
func (p peerCLI) exits(code int, args ...string) string {
	p.t.Helper()
	got, out := p.result(args...)
	if got != code {
		p.t.Errorf("%s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	return out
}

// result runs a command and returns its exit code and its output.
func (p peerCLI) result(args ...string) (code int, out string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// command returns a command. Its variables are also those of berth's command line.
func (p peerCLI) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.bin, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+p.addr, "NOMAD_CLI_NO_COLOR=1", "NOMAD_TOKEN="+p.token,
		"BERTH_ADDR="+p.addr, "BERTH_TOKEN="+p.token)
	return cmd
}

// checkOutput fails the test if an output lacks any of the texts.
func (p peerCLI) checkOutput(output string, texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			p.t.Errorf("the output lacks %q:\n%s", text, output)
		}
	}
}

func TestPeersCommandLine_ShowsJobsNodesAndMetrics(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	node := awaitReadyNode(t, c).ID
	alloc := runJob(t, c, shellJob("sleeper", "sleep 600")).ID
	peer.checkOutput(peer.run("job", "status", "sleeper"), "Allocations", "running")
	peer.checkOutput(peer.run("job", "status", "-verbose", "sleeper"), "Evaluations")
	peer.run("job", "status")
	peer.checkOutput(peer.run("job", "deployments", "sleeper"), "sleeper", "Status")
	peer.checkOutput(peer.run("job", "history", "sleeper"), "Version     = 0")
	peer.checkOutput(peer.run("job", "allocs", "sleeper"), alloc[:8], node[:8])
	peer.checkOutput(peer.run("deployment", "list"), "sleeper")
	peer.checkOutput(peer.run("node", "status", node), "Allocated Resources", "Host Resource Utilization",
		"running")
	peer.checkOutput(peer.run("node", "status", "-self"), node)
	peer.checkOutput(peer.run("node", "status", "-self", "-verbose"), "Attributes", "kernel.name",
		"Node Events", "Cluster", "Device Group Attributes", "3 GiB")
	peer.checkOutput(peer.run("alloc", "status", alloc), `Task "app" is "running"`, "Task Resources")
	peer.checkOutput(peer.run("alloc", "status", "-stats", alloc), "Memory Stats", "CPU Stats", "Percent")
	peer.checkOutput(peer.run("node", "status", "-self", "-stats"), "CPU Stats", "Memory Stats", "Disk Stats")
	peer.checkOutput(peer.run("operator", "metrics"), `"Gauges"`)
	peer.checkOutput(peer.run("operator", "metrics", "-format", "prometheus"), "berth_raft_")
	peer.checkOutput(peer.run("server", "members"), ".global", "alive", "true")
	peer.checkOutput(peer.run("operator", "raft", "list-peers"), ".global", "leader", "true")
	peer.checkOutput(peer.run("operator", "autopilot", "get-config"), "CleanupDeadServers = true")
	peer.checkOutput(peer.run("volume", "status"), "No CSI volumes")
	peer.checkOutput(peer.run("plugin", "status"), "No CSI plugins")
	peer.checkOutput(peer.run("eval", "list"), "sleeper", "job-register")
	peer.checkOutput(peer.run("agent-info"), "server = true", "known_servers = 1")
	// It says nothing: berth counts no summaries that may become wrong.
	peer.run("system", "reconcile", "summaries")
}

func TestPeersCommandLine_InspectsASnapshot(t *testing.T) {
	t.Parallel()
	peer, _ := connectPeer(t)
	file := filepath.Join(t.TempDir(), "state.snap")
	peer.run("operator", "snapshot", "save", file)
	peer.checkOutput(peer.run("operator", "snapshot", "inspect", file), "ID", "Index", "Version  1")
}

// TestPeersCommandLine_ChecksAgents checks the command for monitoring, at a server and at a node without one.
func TestPeersCommandLine_ChecksAgents(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	peer.run("check")
	peer.checkOutput(peer.exits(2, "check", "-min-peers", "5"), "expected number of peers: 5")
	bin := os.Getenv("BERTH_BIN")
	if bin == "" {
		t.Skip("needs a berth binary to start a node (BERTH_BIN)")
	}
	server, err := c.Status().Leader()
	checkNoError(t, "the leader", err)
	peer.addr = startAgent(t, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
consul {
  address = ""
}
client {
  enabled = true
  servers = [%q]
}
`, server))
	node, err := public.NewClient(&public.Config{Address: peer.addr})
	checkNoError(t, "the client of the node", err)
	t.Cleanup(node.Close)
	awaitAnswer(t, "the first heartbeat", func(*public.QueryOptions) (bool, *public.QueryMeta, error) {
		self, err := node.Agent().Self()
		return err == nil && self.Stats["client"]["heartbeat_ttl"] != "0s", nil, err
	})
	peer.run("check")
	peer.checkOutput(peer.exits(2, "check", "-min-servers", "5"), "expected number of servers: 5")
}

// berth rejects the verbs of the enterprise edition by the sentence of the dialect's other edition, and tells
// what it has instead. The peer's command line has a sentence of its own for the license.
func TestPeersCommandLine_NamesTheEnterpriseEdition(t *testing.T) {
	t.Parallel()
	peer, _ := connectPeer(t)
	policy := filepath.Join(t.TempDir(), "p.sentinel")
	checkNoError(t, "a policy", os.WriteFile(policy, []byte("main = rule { true }\n"), 0o600))
	const recommends, admission = "berth recommends no resources", "berth admission apply"
	for _, v := range []struct {
		args    []string
		instead string
	}{
		{[]string{"license", "get"}, ""},
		{[]string{"recommendation", "apply", "r"}, recommends},
		{[]string{"recommendation", "dismiss", "r"}, recommends},
		{[]string{"recommendation", "info", "r"}, recommends},
		{[]string{"recommendation", "list"}, recommends},
		{[]string{"sentinel", "apply", "p", policy}, admission},
		{[]string{"sentinel", "delete", "p"}, admission},
		{[]string{"sentinel", "list"}, admission},
		{[]string{"sentinel", "read", "p"}, admission},
	} {
		peer.checkOutput(peer.exits(1, v.args...), "Nomad Enterprise only endpoint", v.instead)
	}
}

// The servers of a node are shown, and cannot be set.
func TestPeersCommandLine_ShowsTheServersOfANode(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	server, err := c.Status().Leader()
	checkNoError(t, "the leader", err)
	peer.checkOutput(peer.run("node", "config", "-servers"), server)
	peer.checkOutput(peer.exits(1, "node", "config", "-update-servers", "127.0.0.1:1"), "from each heartbeat")
	peer.checkOutput(peer.run("node", "config", "-servers"), server)
}

// berth rejects a route of the dialect that it does not have, and does not read it as the ID of a job.
func TestPeersCommandLine_NamesARouteThatIsNotThere(t *testing.T) {
	t.Parallel()
	peer, _ := connectPeer(t)
	peer.checkOutput(peer.run("operator", "api", "/v1/job/j/nosuch"),
		"there is no route GET /v1/job/j/nosuch in this API")
}
