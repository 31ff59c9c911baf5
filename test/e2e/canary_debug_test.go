package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// debugRun is a run of berth operator debug in a directory.
type debugRun struct {
	*secretCluster
	dir string
	cmd *exec.Cmd
}

// beginDebug begins a run with the finest logs of all agents, and waits until it follows them.
func (c *secretCluster) beginDebug() *debugRun {
	c.t.Helper()
	d := &debugRun{secretCluster: c, dir: c.t.TempDir()}
	d.cmd = exec.Command(binary, "operator", "debug", "-address", "unix://"+c.s.operatorSocket(),
		"-duration", "1h", "-interval", "1h", "-log-level", "trace", "-pprof-duration", "0s", "-output", d.dir)
	if err := d.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // one that has ended is no error
	for _, kind := range []string{"servers", "nodes"} {
		d.await(kind, "")
	}
	return d
}

// await waits until the log of the server or the node has a text.
func (d *debugRun) await(kind, text string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("the log of the %s has %q", kind, text), func() error {
		logs, err := filepath.Glob(filepath.Join(d.dir, "*", kind, "*", "monitor.log"))
		if err != nil || len(logs) != 1 {
			return fmt.Errorf("there are the logs %q, %v", logs, err)
		}
		lines, err := os.ReadFile(logs[0])
		if err == nil && !strings.Contains(string(lines), text) {
			err = fmt.Errorf("it has\n%s", lines)
		}
		return err
	})
}

// end ends the run as an operator does who has seen enough, and searches its files.
func (d *debugRun) end() {
	d.t.Helper()
	err := d.cmd.Process.Signal(syscall.SIGINT)
	if err == nil {
		err = d.cmd.Wait()
	}
	if err != nil {
		d.t.Errorf("berth operator debug ends with %v", err)
	}
	if files := d.searchFiles(d.dir); files < 10 {
		d.t.Errorf("only %d files of the run were searched", files)
	}
}

// searchDebug searches the files of berth operator debug while the secrets are in use: the logs of the agents
// have the requests and the calls of the plugin, without their secrets.
func (c *secretCluster) searchDebug() {
	c.t.Helper()
	d := c.beginDebug()
	c.putSecret("t/secrets/debug", ofVariable)
	c.createVolume("debug", fmt.Sprintf("secrets = { password = %q }\n", ofVolume))
	c.must("volume", "delete", "debug")
	c.wantStatus(http.StatusForbidden, "/v1/system/gc", ofNobody, nil)
	c.wantStatus(http.StatusForbidden, "/v1/acl/login", "", map[string]any{
		"AuthMethodName": "ci",
		"LoginToken":     ofLogin,
	})
	c.fence([]string{"test", "n1"}, "monitor")
	for _, path := range []string{"/v1/var/t/secrets/debug", "/v1/system/gc", "/v1/acl/login"} {
		d.await("servers", "path="+path)
	}
	for _, rpc := range []string{"CreateVolume", "DeleteVolume"} {
		d.await("nodes", "rpc="+rpc)
	}
	d.end()
}
