package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/drivers/docker/engine"
	"berth/client/drivers/driver"
)

// inspect is the daemon's description of the container of a task.
func (n *node) inspect(d *Driver, cfg *driver.TaskConfig) *engine.Container {
	n.t.Helper()
	list, err := d.engine.List(n.ctx, labelTask+"="+cfg.ID)
	if err != nil || len(list) != 1 {
		n.t.Fatalf("the containers of the task are %v, %v", list, err)
	}
	c, err := d.engine.Inspect(n.ctx, list[0].ID)
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// awaitHealth waits until the health check of a container has a result.
func (n *node) awaitHealth(d *Driver, cfg *driver.TaskConfig, want container.HealthStatus) {
	n.t.Helper()
	for ; ; time.Sleep(20 * time.Millisecond) {
		health := n.inspect(d, cfg).State.Health
		if health != nil && health.Status == want {
			return
		}
		if n.ctx.Err() != nil {
			n.t.Fatalf("the health is %+v, want %s", health, want)
		}
	}
}

// groupValue reads a file of the cgroup of a container: the first of the names that is there.
func (n *node) groupValue(c *engine.Container, names ...string) string {
	n.t.Helper()
	for _, name := range names {
		for _, pattern := range []string{"/sys/fs/cgroup/*/*", "/sys/fs/cgroup/*"} {
			found, _ := filepath.Glob(filepath.Join(pattern, c.ID, name))
			if len(found) == 0 {
				continue
			}
			text, err := os.ReadFile(found[0])
			if err != nil {
				n.t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
	}
	n.t.Fatalf("the container's cgroup has none of %q", names)
	return ""
}

// TestDaemon_AppliesTheSettingsOfATask starts a container with each setting, and reads what the kernel has of
// it, or the daemon if the kernel has nothing.
func TestDaemon_AppliesTheSettingsOfATask(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.cfg.AllowPrivileged = true // for pid_mode
	d, _ := n.agent()
	cfg := n.task("settings", "cat:/proc/sys/net/ipv4/ip_unprivileged_port_start", "cat:/proc/1/cmdline",
		"cat:/proc/self/oom_score_adj", "cat:/proc/self/limits", "ignore")
	cfg.Resources.CPU = 512
	for name, value := range map[string]any{
		"pids_limit":    int64(77),
		"cpuset_cpus":   "0",
		"pid_mode":      "host",
		"sysctl":        map[string]any{"net.ipv4.ip_unprivileged_port_start": "78"},
		"ulimit":        map[string]any{"msgqueue": "1234:2345"},
		"oom_score_adj": int64(79),
		"labels":        map[string]any{"owner": "ops", labelNode: "another"},
		"healthchecks": map[string]any{
			"test":     []any{"/program", "exit:1"},
			"interval": "100ms",
			"retries":  int64(1),
		},
	} {
		cfg.Config[name] = value
	}
	n.start(d, cfg)
	n.awaitHealth(d, cfg, container.Unhealthy)
	for ; !strings.HasSuffix(n.output(cfg, "stdout"), "\nready\n"); time.Sleep(5 * time.Millisecond) {
		if n.ctx.Err() != nil {
			t.Fatalf("the container says %q", n.output(cfg, "stdout"))
		}
	}
	c := n.inspect(d, cfg)
	if c.Config.Labels["owner"] != "ops" || c.Config.Labels[labelNode] != "n1" {
		t.Errorf("the labels are %v", c.Config.Labels)
	}
	if got := n.groupValue(c, "pids.max"); got != "77" {
		t.Errorf("pids.max is %s", got)
	}
	if got := n.groupValue(c, "cpu.shares", "cpu.weight"); got != "512" && got != "20" {
		t.Errorf("the weight of the processors is %s", got)
	}
	if got := n.groupValue(c, "cpuset.cpus"); got != "0" {
		t.Errorf("cpuset.cpus is %s", got)
	}
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	out := n.output(cfg, "stdout")
	limits := strings.Join(strings.Fields(out), " ")
	if !strings.HasPrefix(out, "78\n"+strings.TrimSpace(string(first))+"\n79\n") ||
		!strings.Contains(limits, "Max msgqueue size 1234 2345 bytes") {
		t.Errorf("the container says %q; the first process of the host is %q", out, first)
	}
	n.destroy(d, cfg)
}

// TestDaemon_ChecksTheHealthAsTheImageSays, unless the task turns the check off.
func TestDaemon_ChecksTheHealthAsTheImageSays(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("checked:1", `HEALTHCHECK --interval=100ms CMD ["/program", "exit:0"]`)
	cfg := n.task("checked", "ignore")
	cfg.Config["image"] = "checked:1"
	n.start(d, cfg)
	n.awaitHealth(d, cfg, container.Healthy)
	n.destroy(d, cfg)
	cfg = n.task("unchecked", "ignore")
	cfg.Config["image"] = "checked:1"
	cfg.Config["healthchecks"] = map[string]any{"disable": true}
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	if h := n.inspect(d, cfg).State.Health; h != nil && h.Status != container.NoHealthcheck {
		t.Errorf("the health is %+v", h)
	}
	n.destroy(d, cfg)
}

// readsTheFilesOfTheAgent has a user that neither the host nor the image knows, and no rights of root.
func readsTheFilesOfTheAgent(t *testing.T, n *node, d *Driver) {
	cfg := n.task("secrets", "user", "cat:/secrets/"+driver.EnvoyBootstrapFile)
	cfg.User = "61101:61102"
	path := filepath.Join(cfg.Dirs.Secrets, driver.EnvoyBootstrapFile)
	if err := os.WriteFile(path, []byte("{}\n"), 0o440); err != nil {
		t.Fatal(err)
	}
	if result, out := n.run(d, cfg); out != "61101:61102\n{}\n" || !result.Successful() {
		t.Errorf("got %q, %+v, %s", out, result, n.output(cfg, "stderr"))
	}
}

// sharesItsMounts is what the task of a CSI plugin needs: its mounts appear on the host.
func sharesItsMounts(t *testing.T, n *node, d *Driver) {
	root := filepath.Join(n.dir, "volumes")
	target := filepath.Join(root, "v")
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mounts.MakeShared(root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(target, unix.MNT_DETACH)
		_ = unix.Unmount(root, unix.MNT_DETACH)
	})
	cfg := n.task("plugin", "tmpfs:/csi/v", "out:mounted", "ignore")
	cfg.Privileged = true
	cfg.Mounts = []driver.Mount{{HostPath: root, TaskPath: "/csi", Propagation: "bidirectional"}}
	n.start(d, cfg)
	n.awaitOutput(cfg, "mounted\nready\n")
	table, err := mounts.Read()
	if err != nil || !table.Mounted(target) {
		t.Errorf("the container's mount is not on the host: %v", err)
	}
	n.destroy(d, cfg)
}
