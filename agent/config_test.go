package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cli"
	"berth/cli/command"
	"berth/client/hooks/artifact"
	loops "berth/server/control/cluster"
	"berth/server/fencing"
	"berth/structs"
	"berth/structs/cluster"
)

// writeFiles makes files in a new directory and returns its path.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func parseConfig(t *testing.T, args ...string) (c Config, err error) {
	t.Helper()
	cmd := Command()
	cmd.Run = func(_ context.Context, call *command.Call) error {
		c, err = configOf(call)
		return nil
	}
	std := command.Stdio{
		In:  strings.NewReader(""),
		Out: io.Discard,
		Err: io.Discard,
	}
	code := cli.Run(t.Context(), append([]string{"agent"}, args...), std, cmd)
	if code != 0 {
		t.Fatalf("%v: got exit code %d, want 0", args, code)
	}
	return c, err
}

func TestConfig_LaterFilesAndThenFlagsOverride(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.hcl": "region = \"eu\"\ndatacenter = \"dc1\"\nlog_level = \"warn\"\n" +
			"server {\n  enabled = true\n  heartbeat_ttl = \"3s\"\n  job_max_source_size = \"2M\"\n}\n",
		"b.json": `{"datacenter": "dc2", "client": {"enabled": true, "servers": ["127.0.0.1:1"]},
			"ports": {"http": 7}}`,
	})
	c, err := parseConfig(t,
		"-config", filepath.Join(dir, "a.hcl"),
		"-config", filepath.Join(dir, "b.json"),
		"-log-level", "debug",
		"-rpc-port=0",
		"-data-dir", "/x")
	if err != nil {
		t.Fatal(err)
	}
	if c.Region != "eu" ||
		c.Datacenter != "dc2" ||
		c.LogLevel != "debug" ||
		c.Ports != (Ports{HTTP: 7, RPC: 0, Serf: 4748}) {
		t.Errorf("got the configuration %+v", c)
	}
	if !c.Server.Enabled ||
		c.Server.HeartbeatTTL != 3*time.Second ||
		c.Server.JobSource != 2_000_000 ||
		c.Server.BootstrapExpect != 1 {
		t.Errorf("got the server block %+v", c.Server)
	}
	if !c.Client.Enabled || len(c.Client.Servers) != 1 {
		t.Errorf("got the client block %+v", c.Client)
	}
	byDir, err := parseConfig(t, "-config", dir)
	if err != nil || byDir.Datacenter != "dc2" || byDir.Region != "eu" {
		t.Errorf("from a directory: got %+v, error %v", byDir, err)
	}
}

func TestConfig_ReadsTheConfigurationOfTheScheduler(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.hcl": "server {\n  enabled = true\n  default_scheduler_config {\n    scheduler_algorithm = \"spread\"\n" +
			"    preemption_config {\n      batch_scheduler_enabled = true\n    }\n  }\n}\n",
	})
	c, err := parseConfig(t, "-config", dir, "-data-dir", "/x", "-bind", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	want := loops.SchedulerSettings{
		Algorithm:  "spread",
		Preemption: loops.Preemption{System: true, Batch: true},
	}
	if c.Server.Scheduler != want {
		t.Errorf("got %+v, want %+v", c.Server.Scheduler, want)
	}
}

func TestConfig_ReadsTheDevicesThatFence(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.hcl": `server {
  enabled = true
  fencing "ipmi" {
    agent        = "fence_ipmilan"
    options      = { ip = "bmc-${node.unique.name}.example", lanplus = 1 }
    secret_files = { password = "/etc/berth/bmc" }
    match        = { "pin.rack" = "r1" }
    timeout      = "90s"
  }
  fencing "san" {
    agent   = "fence_scsi"
    plug    = "${pin.plug}"
    scope   = "storage"
    plugins = ["san"]
    volumes = ["default/db"]
    options {
      key = "${pin.scsi-key}"
    }
  }
}`,
		"b.json": `{"server": {"fencing": [{"pve": {"agent": "fence_pve", "plug": "${pin.vmid}"}}]}}`,
	})
	c, err := parseConfig(t, "-config", dir, "-data-dir", "/x", "-bind", "127.0.0.1")
	if err == nil {
		err = c.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []*fencing.Device{
		{
			Name:        "ipmi",
			Agent:       "fence_ipmilan",
			Options:     map[string]string{"ip": "bmc-${node.unique.name}.example", "lanplus": "1"},
			SecretFiles: map[string]string{"password": "/etc/berth/bmc"},
			Match:       map[string]string{"pin.rack": "r1"},
			Timeout:     90 * time.Second,
		},
		{
			Name:    "san",
			Agent:   "fence_scsi",
			Options: map[string]string{"key": "${pin.scsi-key}"},
			Plug:    "${pin.plug}",
			Scope:   fencing.ScopeStorage,
			Plugins: []string{"san"},
			Volumes: []string{"default/db"},
		},
		{Name: "pve", Agent: "fence_pve", Plug: "${pin.vmid}"},
	}
	if !reflect.DeepEqual(c.Server.Fencing, want) {
		t.Errorf("got %+v", c.Server.Fencing)
	}
}

func TestConfig_FaultsOfDevicesThatFenceHaveAPosition(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": "server {\n  enabled = true\n  fencing \"a\" {\n    agent = \"x\"\n  }\n" +
		"  fencing \"b\" {\n    agent = \"x\"\n    plug  = \"${var.x}\"\n  }\n}\n"})
	c, err := parseConfig(t, "-config", dir, "-data-dir", "/x", "-bind", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Finish()
	const want = `a.hcl:6,3: server.fencing "b": plug: ${var.x} must be`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestConfig_ReadsTheConfigurationOfAutopilot(t *testing.T) {
	read := func(server, autopilot string) (Config, error) {
		dir := writeFiles(t, map[string]string{
			"a.hcl": "server {\n  enabled = true\n" + server + "}\nautopilot {\n" + autopilot + "}\n",
		})
		c, err := parseConfig(t, "-config", dir, "-data-dir", "/x", "-bind", "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return c, c.Finish()
	}
	c, err := read("redundancy_zone = \"a\"\n", "min_quorum = 3\nserver_stabilization_time = \"1m\"\n")
	if err != nil {
		t.Fatal(err)
	}
	want := cluster.DefaultAutopilotConfig()
	want.MinQuorum = 3
	want.ServerStabilizationTime = time.Minute
	if got := c.Server.Autopilot.Row(); got != want || c.Server.RedundancyZone != "a" {
		t.Errorf("got %+v in zone %q, want %+v", got, c.Server.RedundancyZone, want)
	}
	for _, bad := range [][3]string{
		{"", "max_trailing_logs = 0\n", "autopilot: MaxTrailingLogs is 0"},
		{"non_voting_server = true\n", "", "expected 0: a server without a vote"},
		{"redundancy_zone = \"" + strings.Repeat("z", 65) + "\"\n", "", "redundancy_zone has 65 bytes"},
	} {
		_, err := read(bad[0], bad[1])
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), bad[2]) {
			t.Errorf("got %v, want %q", err, bad[2])
		}
	}
}

func TestConfig_FaultsOfFilesHaveAPosition(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"unknown.hcl": "server {\n  enabled = true\n  bootstrap_expct = 3\n}\n",
		"type.hcl":    "ports {\n  http = \"many\"\n}\n",
		"syntax.hcl":  "server {\n",
	})
	for file, want := range map[string][]string{
		"unknown.hcl": {"unknown.hcl:3,", "bootstrap_expct", "bootstrap_expect"},
		"type.hcl":    {"type.hcl:2,"},
		"syntax.hcl":  {"syntax.hcl:"},
		"missing.hcl": {"missing.hcl"},
	} {
		_, err := parseConfig(t, "-config", filepath.Join(dir, file))
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v, want invalid", file, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", file, err, w)
			}
		}
	}
}

func TestConfig_ReportsAllFaults(t *testing.T) {
	c := DefaultConfig()
	c.LogLevel = "loud"
	c.DataDir = "relative"
	c.BindAddr = "nowhere"
	c.Server.Enabled = true
	c.Server.BootstrapExpect = 2
	c.Consul.ServerAutoJoin = false
	c.Consul.Timeout = 0
	err := c.Finish()
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"log_level", "data_dir", "bind_addr", "bootstrap_expect", "retry_join",
		"consul.timeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %s", err, want)
		}
	}
	times := DefaultConfig()
	times.DataDir = "/x"
	times.Server.Enabled = true
	times.Server.HeartbeatGrace = -time.Second
	times.Limits.HTTPMaxConns = 0
	err = times.Finish()
	for _, want := range []string{"heartbeat_grace", "http_max_conns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	nothing := DefaultConfig()
	nothing.DataDir = "/x"
	err = nothing.Finish()
	if err == nil || !strings.Contains(err.Error(), "-dev") {
		t.Errorf("an agent without a server and a node: got %v", err)
	}
}

func TestConfig_ReadsTheSettingsOfDrivers(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": `
data_dir = "/x"
client {
  enabled = true
  drivers {
    exec {
      seccomp    = "unconfined"
      pids_limit = -1
    }
    raw_exec {
      enabled    = true
      pids_limit = 99
    }
  }
}
`})
	c, err := parseConfig(t, "-config", dir)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Client.Drivers
	if d.Exec.Seccomp != "unconfined" ||
		d.Exec.PIDsLimit != -1 ||
		d.RawExec.PIDsLimit != 99 {
		t.Errorf("got exec %+v and raw_exec %+v", d.Exec, d.RawExec)
	}
	if d.Exec.MaxFiles == 0 {
		t.Error("a block in the file removes the defaults of the other settings")
	}
}

func TestConfig_ReadsTheLimitsOfArtifacts(t *testing.T) {
	const text = `
data_dir = "/x"
client {
  enabled = true
  artifact {
    http_max_size                  = "1GiB"
    decompression_file_count_limit = 7
    %s
  }
}
`
	dir := writeFiles(t, map[string]string{
		"a.hcl": strings.Replace(text, "%s", `git_timeout = "1h"`, 1),
		"b.hcl": strings.Replace(text, "%s", `gcs_timeout = "1h"`, 1),
	})
	c, err := parseConfig(t, "-config", filepath.Join(dir, "a.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	want := artifact.DefaultSettings()
	want.HTTPMaxSize = 1 << 30
	want.DecompressionFileCountLimit = 7
	want.GitTimeout = time.Hour
	if got := c.Client.Artifact; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, err = parseConfig(t, "-config", filepath.Join(dir, "b.hcl"))
	if err == nil || !strings.Contains(err.Error(), `"gcs_timeout" is not supported by berth yet`) {
		t.Errorf("got %v", err)
	}
}

func TestConfig_ReadsThePluginsOfTheNode(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": `
plugin_dir = "/opt/plugins"
plugin "podman" {
  args = ["-v"]
  config {
    gc = true
    volumes { enabled = true }
  }
}
plugin "gpu" {}
client {
  enabled = true
  options = { "driver.allowlist" = "exec, podman", "driver.denylist" = "docker" }
  users { dynamic_user_max = 80005 }
}`})
	c, err := parseConfig(t, "-config", filepath.Join(dir, "a.hcl"), "-data-dir", "/x",
		"-bind", "127.0.0.1")
	if err == nil {
		err = c.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	got := c.Client.Plugins
	if got.Dir != "/opt/plugins" || got.Sockets != "/x/plugins" || len(got.Plugins) != 2 ||
		got.Plugins[1].Name != "gpu" {
		t.Fatalf("got %+v", got)
	}
	if users := c.Client.Users; users.Min != 80_000 || users.Max != 80_005 {
		t.Errorf("the users of tasks are %+v", users)
	}
	podman := got.Plugins[0]
	want := map[string]any{"gc": true, "volumes": []any{map[string]any{"enabled": true}}}
	if !slices.Equal(podman.Args, []string{"-v"}) || !reflect.DeepEqual(podman.Config, want) {
		t.Errorf("got %+v", podman)
	}
	drivers := c.Client.DriverConfig()
	for name, want := range map[string]bool{"exec": true, "podman": true, "raw_exec": false, "docker": false} {
		if drivers.Allows(name) != want {
			t.Errorf("driver %s is allowed: %t", name, !want)
		}
	}
}

func TestConfig_BoundsTheLogFile(t *testing.T) {
	c := DefaultConfig()
	if c.LogRotateBytes != 100<<20 || c.LogRotateDuration != 24*time.Hour || c.LogRotateMaxFiles != 7 {
		t.Errorf("got %d bytes, %s and %d files", c.LogRotateBytes, c.LogRotateDuration, c.LogRotateMaxFiles)
	}
}

func TestConfig_ListsTheNamesThatClientsMayUse(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.hcl": `
name = "n1"
data_dir = "/x"
server { enabled = true }
advertise { http = "berth.example.com:80" }
http_allowed_hosts = ["*.fleet.example"]
`})
	c, err := parseConfig(t, "-config", dir)
	got := strings.Join(c.httpHosts(), " ")
	if err != nil || got != "n1 *.fleet.example berth.example.com" {
		t.Errorf("got the names %s, error %v", got, err)
	}
	c.HTTPAllowedHosts = []string{"a:80"}
	err = c.Finish()
	const want = `http_allowed_hosts: "a:80"; expected a name without a port`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestConfig_DestroysAtTheEndIfItIsTold(t *testing.T) {
	for content, want := range map[string]bool{
		"client {\n enabled = true\n}":                              false,
		"client {\n enabled = true\n destroy_on_shutdown = true\n}": true,
	} {
		dir := writeFiles(t, map[string]string{"a.hcl": content})
		c, err := parseConfig(t, "-config", filepath.Join(dir, "a.hcl"), "-data-dir", "/x",
			"-bind", "127.0.0.1")
		if err == nil {
			err = c.Finish()
		}
		if err != nil || c.Client.DestroyOnShutdown != want {
			t.Errorf("%s: got %t, %v", content, c.Client.DestroyOnShutdown, err)
		}
	}
}

// Each caller of such a port counts as a machine of the cluster.
func TestConfig_AccessControlOnOpenPortsNeedsTLS(t *testing.T) {
	const files = "ca_file = \"/ca\"\n cert_file = \"/cert\"\n key_file = \"/key\"\n"
	for name, c := range map[string]struct {
		content  string
		accepted bool
	}{
		"off":                {"tls {\n mode = \"off\"\n}", false},
		"off, on loopback":   {"bind_addr = \"127.0.0.1\"\ntls {\n mode = \"off\"\n}", true},
		"unset, on loopback": {"bind_addr = \"127.0.0.1\"", true},
		"prefer":             {"tls {\n mode = \"prefer\"\n " + files + "}", true},
		"require":            {"tls {\n mode = \"require\"\n " + files + "}", true},
	} {
		for mode, enforces := range map[string]bool{"enforce": true, "log": false} {
			block := "acl {\n enabled = true\n mode = \"" + mode + "\"\n}\n"
			dir := writeFiles(t, map[string]string{"a.hcl": "server {\n enabled = true\n}\n" + block + c.content})
			config, err := parseConfig(t, "-config", dir, "-data-dir", "/x")
			if err == nil {
				err = config.Finish()
			}
			rejected := err != nil && strings.Contains(err.Error(), "acl: the server listens on")
			if rejected != (enforces && !c.accepted) || err != nil && !rejected {
				t.Errorf("%s, mode %s: %v", name, mode, err)
			}
		}
	}
}

// A server whose configuration lost the block has the access control of its cluster all the same.
func TestConfig_AccessControlOfTheClusterOnOpenPortsNeedsTLS(t *testing.T) {
	for mode, want := range map[string]bool{"enforce": false, "log": true, "off": true} {
		data := t.TempDir()
		err := os.Mkdir(filepath.Join(data, "server"), 0o700)
		if err == nil {
			kept := []byte(`{"Mode":"` + mode + `","Index":7}`)
			err = os.WriteFile(filepath.Join(data, "server", "acl-mode.json"), kept, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := writeFiles(t, map[string]string{"a.hcl": "server {\n enabled = true\n}\ntls {\n mode = \"off\"\n}"})
		config, err := parseConfig(t, "-config", dir, "-data-dir", data)
		if err == nil {
			err = config.Finish()
		}
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "acl: the server listens on") {
			t.Errorf("the cluster had the mode %s: %v", mode, err)
		}
	}
}

func TestConfig_OpenPortsNeedAWordAboutTLS(t *testing.T) {
	for name, c := range map[string]struct {
		content  string
		accepted bool
	}{
		"all addresses":               {"", false},
		"an address of the network":   {"bind_addr = \"10.0.0.7\"", false},
		"loopback":                    {"bind_addr = \"127.0.0.1\"", true},
		"loopback with one open port": {"bind_addr = \"127.0.0.1\"\naddresses {\n rpc = \"10.0.0.7\"\n}", false},
		"off in writing":              {"tls {\n mode = \"off\"\n}", true},
	} {
		dir := writeFiles(t, map[string]string{"a.hcl": "server {\n enabled = true\n}\n" + c.content})
		config, err := parseConfig(t, "-config", dir, "-data-dir", "/x")
		if err == nil {
			err = config.Finish()
		}
		if (err == nil) != c.accepted || err != nil && !strings.Contains(err.Error(), "tls { mode = \"off\" }") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
