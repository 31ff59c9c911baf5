package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/api/operator"
	"berth/structs"
)

// configFile is a file that an agent of this process reads.
type configFile struct {
	t    *testing.T
	path string
}

func newConfigFile(t *testing.T, text string) configFile {
	f := configFile{t, filepath.Join(t.TempDir(), "agent.hcl")}
	f.write(text)
	return f
}

func (f configFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// reload writes the file and sends SIGHUP, which reaches all agents of this process.
func (f configFile) reload(text string) {
	f.t.Helper()
	f.write(text)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		f.t.Fatal(err)
	}
}

// awaitNode reads a node of the servers until it satisfies ok, which must not take long.
func awaitNode(t *testing.T, addr, id string, ok func(*structs.NodeDetail) bool) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	n := getJSON[*structs.NodeDetail](t, addr+"/v1/node/"+id)
	for !ok(n) {
		if time.Now().After(limit) {
			t.Fatalf("the servers still know the node as %+v", n)
		}
		next := fmt.Sprintf("%s/v1/node/%s?index=%d&wait=10s", addr, id, n.ModifyIndex)
		n = getJSON[*structs.NodeDetail](t, next)
	}
}

// withoutDrivers is a node that makes no cgroups.
const withoutDrivers = `
  options = { "driver.denylist" = "exec,raw_exec,docker" }
`

// nodeText is the configuration of a node, with other settings.
func nodeText(level, client, outer string) string {
	return fmt.Sprintf("log_level = %q\nclient {\n  enabled = true\n%s\n%s\n}\n%s\n",
		level, client, withoutDrivers, outer)
}

// TestAgent_ReloadsTheSettingsOfItsNode changes every live setting of a node beside its server, some that
// need a restart, and then a setting that is wrong, which changes nothing.
func TestAgent_ReloadsTheSettingsOfItsNode(t *testing.T) {
	file := newConfigFile(t, nodeText("info", `
  node_class = "small"
  meta { rack = "r1" }
  device "linux/char/null" { paths = ["/dev/null"] }
`, ""))
	addr, log, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file.path)
	log.await(t, "node registered")
	self := getJSON[*api.AgentSelf](t, addr+"/v1/agent/self")
	id := self.Stats["client"]["node_id"]
	awaitNode(t, addr, id, func(n *structs.NodeDetail) bool {
		return n.NodeClass == "small" && n.Meta["rack"] == "r1" && n.DeviceGroup("linux/char/null") != nil
	})
	changed := nodeText("debug", `
  node_class = "big"
  meta { rack = "r2" }
  servers = ["127.0.0.1:1"]
  device "linux/char/zero" { paths = ["/dev/zero"] }
  node_pool = "other"
`, "telemetry { collection_interval = \"3s\" }")
	file.reload(changed)
	log.await(t, "configuration reloaded: changed="+
		`["log_level", "client.servers", "client.node_class", "client.meta", "client.device"]`)
	log.await(t, `take effect after a restart: settings=["telemetry.collection_interval", "client.node_pool"]`)
	asChanged := func(n *structs.NodeDetail) bool {
		return n.NodeClass == "big" && n.Meta["rack"] == "r2" && n.NodePool == structs.DefaultNodePool &&
			n.DeviceGroup("linux/char/zero") != nil && n.DeviceGroup("linux/char/null") == nil
	}
	awaitNode(t, addr, id, asChanged)
	self = getJSON[*api.AgentSelf](t, addr+"/v1/agent/self")
	servers := self.Stats["client"]["servers"]
	if self.Config["LogLevel"] != "debug" || strings.Contains(servers, "127.0.0.1:1]") {
		t.Errorf("the agent is %+v: a node beside a server uses that one", self)
	}
	file.reload(nodeText("info", `
  node_class = "huge"
  device "linux/char/full" { paths = ["full"] }
`, ""))
	fault := log.await(t, "failed to reload the configuration; nothing changes")
	if !strings.Contains(fault, "agent.hcl:6,3: client.device") {
		t.Errorf("the fault has no position: %s", fault)
	}
	file.reload(changed)
	log.await(t, "configuration reloaded: changed=[]")
	awaitNode(t, addr, id, asChanged)
}

// TestAgent_ReloadsTheServersOfItsNode gives a node without a server that answers a server.
func TestAgent_ReloadsTheServersOfItsNode(t *testing.T) {
	addr, _, _ := startServer(t, "-data-dir", t.TempDir())
	getJSON[[]*structs.NodeListStub](t, addr+"/v1/nodes") // waits for a leader
	peers := getJSON[[]string](t, addr+"/v1/status/peers")
	file := newConfigFile(t, nodeText("info", `servers = ["127.0.0.1:1"]`, ""))
	_, log, _ := startServer(t, "-server=false", "-data-dir", t.TempDir(), "-config", file.path)
	log.await(t, "no lease from the servers")
	file.reload(nodeText("info", fmt.Sprintf("servers = %q", peers), ""))
	log.await(t, `configuration reloaded: changed=["client.servers"]`)
	log.await(t, "node registered")
}

// TestAgent_ReloadsOnARequest changes a live setting, and then one that is wrong, which changes nothing.
func TestAgent_ReloadsOnARequest(t *testing.T) {
	file := newConfigFile(t, `log_level = "info"`)
	addr, _, _ := startServer(t, "-data-dir", t.TempDir(), "-config", file.path)
	c := api.NewClient(api.ClientConfig{Address: addr})
	defer c.Close()
	level := func() any {
		return getJSON[*api.AgentSelf](t, addr+"/v1/agent/self").Config["LogLevel"]
	}
	file.write(`log_level = "debug"`)
	err := operator.Reload(t.Context(), c)
	if err != nil || level() != "debug" {
		t.Errorf("got the level %v, error %v, want debug", level(), err)
	}
	file.write(`log_level = "loud"`)
	err = operator.Reload(t.Context(), c)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "log_level") ||
		level() != "debug" {
		t.Errorf("a wrong setting: got the level %v, error %v", level(), err)
	}
	err = (&Agent{}).reread()
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("an agent without a configuration to read: got %v", err)
	}
}

// TestConfig_KeepsANodeThatIsToEnd: nobody has validated the settings of a node that is not enabled.
func TestConfig_KeepsANodeThatIsToEnd(t *testing.T) {
	old, next := DefaultConfig(), DefaultConfig()
	old.Client.Enabled = true
	old.Client.NodeClass = "small"
	next.Client.NodeClass = "big"
	next.LogLevel = "debug"
	if live := old.withLive(&next); live.Client.NodeClass != "small" || live.LogLevel != "debug" {
		t.Errorf("got %+v of the node, log level %s", live.Client, live.LogLevel)
	}
}
