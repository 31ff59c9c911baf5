package docker

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"berth/client/drivers/driver"
	"berth/structs"
)

// TestDaemon_KeepsOutputAsTheJobSays runs a container with each log driver, and looks for its output in the
// logs of the task.
func TestDaemon_KeepsOutputAsTheJobSays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := n.driver()
	var events []string
	d.options.Events = func(e driver.TaskEvent) { events = append(events, e.Message) }
	n.launch(d)
	for name, c := range map[string]struct {
		logging map[string]any
		want    container.LogConfig
		out     string
	}{
		"json": {
			map[string]any{"type": "json-file", "config": map[string]any{"max-size": "1m", "mode": "non-blocking"}},
			container.LogConfig{
				Type:   "json-file",
				Config: map[string]string{"max-size": "1m", "max-file": "2", "mode": "non-blocking"},
			},
			"hello\n",
		},
		"local": {
			map[string]any{"driver": "local"},
			container.LogConfig{Type: "local", Config: map[string]string{"max-size": "16m", "max-file": "2"}},
			"hello\n",
		},
		"none": {map[string]any{"type": "none"}, container.LogConfig{Type: "none"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events = nil
			cfg := n.task(name, "out:hello")
			cfg.Config["logging"] = c.logging
			n.start(d, cfg)
			if got := n.inspect(d, cfg).HostConfig.LogConfig; got.Type != c.want.Type ||
				!maps.Equal(got.Config, c.want.Config) {
				t.Errorf("the daemon has %+v", got)
			}
			n.wait(d, cfg)
			n.destroy(d, cfg)
			files, err := filepath.Glob(filepath.Join(cfg.Dirs.Logs, "web.stdout.*"))
			if err != nil || (len(files) == 0) != (c.out == "") {
				t.Fatalf("the logs are %q, %v", files, err)
			}
			if c.out != "" && n.output(cfg, "stdout") != c.out {
				t.Errorf("the log is %q", n.output(cfg, "stdout"))
			}
			told := slices.ContainsFunc(events, func(s string) bool {
				return strings.Contains(s, "logs of the task stay empty")
			})
			if told != (c.out == "") {
				t.Errorf("the events are %q", events)
			}
		})
	}
}

// TestDaemon_SendsOutputOnlyWhereTheNodeAllows: the daemon sends the output away, and the logs of the task
// have it, too.
func TestDaemon_SendsOutputOnlyWhereTheNodeAllows(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	cfg := n.task("syslog", "out:hello")
	cfg.Config["logging"] = map[string]any{
		"type":   "syslog",
		"config": map[string]any{"syslog-address": "udp://" + server.LocalAddr().String()},
	}
	d, stop := n.agent()
	_, err = d.Start(n.ctx, cfg)
	if !structs.IsKind(err, structs.KindDenied) ||
		!strings.Contains(err.Error(), `config.logging: "syslog": this node allows local, json-file, none`) {
		t.Errorf("without the setting: %v", err)
	}
	stop()
	n.cfg.AllowLogging = []string{"syslog"}
	d, _ = n.agent()
	if _, out := n.run(d, cfg); out != "hello\n" {
		t.Errorf("the log is %q", out)
	}
	limit, _ := n.ctx.Deadline()
	if err := server.SetReadDeadline(limit); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 1000)
	length, _, err := server.ReadFrom(message)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(message[:length])), "hello") {
		t.Errorf("the server of logs got %q, %v", message[:length], err)
	}
}

// TestDaemon_KeepsNoDisabledOutput: the task's own logs block turns the output off, for the daemon and berth.
func TestDaemon_KeepsNoDisabledOutput(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	cfg := n.task("quiet", "out:hello")
	cfg.LogConfig.Disabled = true
	n.start(d, cfg)
	if got := n.inspect(d, cfg).HostConfig.LogConfig.Type; got != "none" {
		t.Errorf("the daemon keeps output: %s", got)
	}
	n.wait(d, cfg)
	n.destroy(d, cfg)
	if left, err := os.ReadDir(cfg.Dirs.Logs); err != nil || len(left) > 0 {
		t.Errorf("the directory of logs has %v, %v", left, err)
	}
}

// TestDaemon_KeepsLongLines: the daemon keeps a long line in parts, each log driver in its own form.
func TestDaemon_KeepsLongLines(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	long := strings.Repeat("x", 40_000) + "\n" + strings.Repeat("y", 16<<10) + "\nend\n"
	for _, kept := range []string{"json-file", "local"} {
		for _, tty := range []bool{false, true} {
			cfg := n.task(fmt.Sprintf("%s-%t", kept, tty), "cat:/local/long")
			err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "long"), []byte(long), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Config["logging"] = map[string]any{"type": kept}
			cfg.Config["tty"] = tty
			want := long
			if tty {
				want = strings.ReplaceAll(long, "\n", "\r\n")
			}
			if _, out := n.run(d, cfg); out != want {
				t.Errorf("%s, a terminal %t: the log has %d bytes, want %d; it ends with %q",
					kept, tty, len(out), len(want), out[max(0, len(out)-20):])
			}
		}
	}
}
