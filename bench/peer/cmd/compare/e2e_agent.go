package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// product is a side of the end-to-end rows.
type product struct {
	name   string
	binary string
	config string // of a node
	user   string // of jobs' tasks, with ID 0
	plugin func(tools, data string) object
	http   int
	rpc    int
}

// The agents have no more to find out about their machine than they need. Their tasks see only the programs
// that bench-peer.sh collects.
var (
	peerProduct = product{
		name:   "peer",
		binary: "peer-server",
		http:   peerHTTP,
		rpc:    peerRPC,
		user:   "bench", // for "root" it wants capabilities that root of a container may lack
		plugin: bareDriver,
		config: `advertise {
 http = "127.0.0.1"
 rpc = "127.0.0.1"
 serf = "127.0.0.1"
}
client {
 enabled = true
 options = {
  "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"
  "driver.allowlist" = "exec,raw_exec"
  "user.denylist" = "root"
 }
 chroot_env {
  %s
 }
}
plugin "raw_exec" {
 config {
  enabled = true
 }
}
consul {
 client_auto_join = false
 server_auto_join = false
 auto_advertise = false
}
`,
	}
	berthProduct = product{
		name:   "berth",
		binary: "berth",
		http:   berthHTTP,
		rpc:    berthRPCp,
		user:   "root",
		plugin: isolatedDriver,
		config: `client {
 enabled = true
 drivers {
  exec {
   chroot_env = {
    %s
   }
  }
 }
}
`,
	}
)

// agentConfig has the server and the node in one process, as `agent -dev` has, with the state on disk.
const agentConfig = `name = "bench"
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "WARN"
ports {
 http = %d
 rpc = %d
 serf = %d
}
server {
 enabled = true
 bootstrap_expect = 1
}
`

//go:embed contain.sh
var containScript string

// accounting is the hierarchy of the kernel's CPU accounting.
const accounting = "/sys/fs/cgroup/cpuacct"

// agentProcess is a running agent. Its group of the accounting has it and all its tasks.
type agentProcess struct {
	*process
	caller
	group string
}

// startAgent starts a server and node of a product.
func (b *bench) startAgent(p *product, dir string) (*agentProcess, error) {
	data := filepath.Join(dir, "data")
	tools := filepath.Join(b.bin, "tools")
	var shown []string
	for _, d := range []string{"bin", "etc", "lib", "lib64"} {
		shown = append(shown, fmt.Sprintf("%q = %q", filepath.Join(tools, d), "/"+d))
	}
	config := fmt.Sprintf(agentConfig, data, p.http, p.rpc, p.rpc+1) +
		fmt.Sprintf(p.config, strings.Join(shown, "\n"))
	group := filepath.Join(accounting, "bench-peer")
	if err := endGroup(group); err != nil { // of a run that was killed
		return nil, err
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "contain.sh")
	if err := os.WriteFile(script, []byte(containScript), 0o600); err != nil {
		return nil, err
	}
	cmd := launch(dir, filepath.Join(b.bin, p.binary), "agent.hcl", config, "sh", script, group)
	return &agentProcess{
		process: cmd,
		caller:  caller{addr(p.http)},
		group:   group,
	}, nil
}

// cpu is the CPU time of the agent and all its tasks, in seconds.
func (a *agentProcess) cpu() float64 {
	text, err := os.ReadFile(filepath.Join(a.group, "cpuacct.usage"))
	check(err)
	ns, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	check(err)
	return ns / 1e9
}

// end ends the agent and all that it has started.
func (a *agentProcess) end() error {
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(20*time.Second, func() { _ = a.cmd.Process.Kill() })
	_ = a.cmd.Wait()
	kill.Stop()
	return endGroup(a.group)
}

// endGroup ends the processes of a group and of the groups in it, and removes these and the groups that the
// processes had in other hierarchies.
func endGroup(group string) error {
	others := map[string]bool{}
	err := await("the end of "+group, func() error {
		var groups []string
		err := filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for _, g := range slices.Backward(groups) { // the inner ones first
			procs, _ := os.ReadFile(filepath.Join(g, "cgroup.procs"))
			for text := range strings.FieldsSeq(string(procs)) {
				if pid, err := strconv.Atoi(text); err == nil {
					addGroups(others, pid)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			err = errors.Join(err, syscall.Rmdir(g))
		}
		return err
	})
	for path := range others {
		_ = syscall.Rmdir(path) // the kernel keeps one that others have
	}
	return err
}

// addGroups adds the groups of a process that have the name of a product.
func addGroups(to map[string]bool, pid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 ||
			!strings.HasPrefix(fields[2], "/nomad/") && !strings.HasPrefix(fields[2], "/berth/") {
			continue
		}
		hierarchy := strings.TrimPrefix(fields[1], "name=")
		to[filepath.Join("/sys/fs/cgroup", cmp.Or(hierarchy, "unified"), fields[2])] = true
	}
}

// await calls try until it succeeds, at most a minute.
func await(what string, try func() error) (err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		err = try()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("waited in vain for %s: %w", what, err)
}

// parallel is how many clients call an agent or a server at a time.
const parallel = 8

// together calls fn for 0 to n-1, several at a time, as clients of an agent do.
func together(n int, fn func(i int) error) error {
	next := make(chan int)
	errs := make([]error, n)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for i := range next {
				errs[i] = fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}
