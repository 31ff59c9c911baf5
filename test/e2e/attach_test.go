package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"

	"berth/structs"
)

// shelfDir is the directory that all processes of the shelf plugin share.
type shelfDir struct {
	t        testing.TB
	root     string
	settings string // more lines of the csi_plugin blocks of its jobs
}

// newStorage makes a storage that outlives the agents that are made after it.
func newStorage(t testing.TB) *shelfDir {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "be2e-shelf-")
	if err != nil {
		t.Fatal(err)
	}
	guarded.watch(t, root)
	st := &shelfDir{t: t, root: root}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the calls to the plugin:\n%s", st.read("calls"))
		}
		l := newLeftovers(root)
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(root, "hold"), 0o700); err != nil {
		t.Fatal(err)
	}
	return st
}

func (st *shelfDir) read(file string) string {
	text, _ := os.ReadFile(filepath.Join(st.root, file))
	return string(text)
}

// writePluginJob returns a job file that runs the plugin, or one half of it, on nodes whose agents allow it.
func (st *shelfDir) writePluginJob(a *agent, name, kind, half string) string {
	a.t.Helper()
	self, err := os.Executable()
	if err != nil {
		a.t.Fatal(err)
	}
	return a.writeFile(name+".hcl", fmt.Sprintf(`
job %q {
  type = %q
  group "plugin" {
    restart {
      attempts = 5
      delay    = "200ms"
    }
    task "driver" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["shelf", "-root", %q, "-half", %[5]q, "-node", "${node.unique.name}",
          "-endpoint", "${CSI_ENDPOINT}"]
      }
      csi_plugin {
        id   = "shelf"
        type = %[5]q
%[6]s
      }
    }
  }
}`, name, kind, self, st.root, half, st.settings))
}

// allowRaw lets the agent run tasks without isolation: the plugin mounts in the host's own namespace.
func (a *agent) allowRaw() *agent {
	config := a.writeFile("raw.hcl",
		"client {\n  drivers {\n    raw_exec {\n      enabled = true\n    }\n  }\n}\n")
	a.args = append(a.args, "-config", config)
	return a
}

// createVolume has the plugin make a volume of mib MiB, or expand it.
func (st *shelfDir) createVolume(a *agent, id string, mib int) {
	a.t.Helper()
	a.mustEventually("volume", "create", st.writeVolume(a, id, mib))
}

func (st *shelfDir) writeVolume(a *agent, id string, mib int) string {
	return st.writeVolumeFile(a, volumeFile{id: id}, mib)
}

func (st *shelfDir) writeVolumeFile(a *agent, v volumeFile, mib int) string {
	a.t.Helper()
	text := strings.Replace(v.hclWithSize(mib), `"hostpath"`, `"shelf"`, 1)
	return a.writeFile(fmt.Sprintf("volume-%s-%d.hcl", v.id, mib), text)
}

// recordedPlaces lists "volume node" for the plugin's records in a directory of each volume: "attached" or
// "staged".
func (st *shelfDir) recordedPlaces(dir string) (all []string) {
	found, _ := filepath.Glob(filepath.Join(st.root, "vol", "*", dir, "*"))
	for _, path := range found {
		all = append(all, st.volumeOf(path)+" "+filepath.Base(path))
	}
	slices.Sort(all)
	return all
}

// volumeOf returns the name of the volume to which a path below the shared directory belongs.
func (st *shelfDir) volumeOf(path string) string {
	rel, _ := filepath.Rel(filepath.Join(st.root, "vol"), path)
	id, _, _ := strings.Cut(rel, "/")
	return strings.TrimPrefix(id, "shelf-")
}

// mounts lists "volume node" for the kernel's mounts at the node's staging ("stage") or publish ("mount")
// paths.
func (st *shelfDir) mounts(n *agent, base string) (all []string) {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.data("csi", "v")))
	if err != nil {
		st.t.Fatal(err)
	}
	for _, i := range infos {
		if filepath.Base(i.Mountpoint) != base {
			continue
		}
		if strings.HasPrefix(i.Root, st.root) {
			all = append(all, st.volumeOf(i.Root)+" "+n.name)
			continue
		}
		backing, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(i.Source), "loop/backing_file"))
		if err != nil {
			all = append(all, i.Source+" "+n.name)
			continue
		}
		all = append(all, st.volumeOf(strings.TrimSpace(string(backing)))+" "+n.name)
	}
	slices.Sort(all)
	return all
}

// allocsAtWork returns the allocations of which a process runs on the node, by the processes' environment.
func (a *agent) allocsAtWork() map[string]bool {
	found := map[string]bool{}
	for _, pid := range a.taskTree() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if id, ok := bytes.CutPrefix(entry, []byte("BERTH_ALLOC_ID=")); ok {
				found[string(id)] = true
			}
		}
	}
	return found
}

// disagreement returns the differences between rows, nodes and storage. An allocation is shown running
// exactly where a process of it runs. A volume is attached, staged and published exactly where a claim
// requires it.
func (c *testCluster) disagreement(st *shelfDir) error {
	s := c.liveServer()
	shown, err := c.shownRunning(s)
	if err != nil {
		return err
	}
	var claimed, attached []string
	volumes, err := get[[]*structs.CSIVolumeListStub](s, "/v1/volumes?type=csi")
	if err != nil {
		return err
	}
	for _, stub := range volumes {
		v, err := get[*structs.CSIVolumeDetail](s, "/v1/volume/csi/"+stub.ID)
		if err != nil {
			return err
		}
		for _, claim := range v.Claims {
			claimed = append(claimed, v.ID+" "+c.nodeName(claim.NodeID))
		}
		for _, a := range v.Attachments {
			attached = append(attached, v.ID+" "+c.nodeName(a.NodeID))
			if a.State != structs.AttachmentAttached {
				node := c.nodeName(a.NodeID)
				return fmt.Errorf("volume %s is %s at %s: %+v",
					v.ID, a.State, node, a.LastError)
			}
		}
	}
	slices.Sort(claimed)
	slices.Sort(attached)
	working := map[string]string{}
	var staged, published []string
	for _, n := range c.nodes {
		for id := range n.allocsAtWork() {
			working[id] = n.name
		}
		staged = append(staged, st.mounts(n, "stage")...)
		published = append(published, st.mounts(n, "mount")...)
	}
	slices.Sort(staged)
	slices.Sort(published)
	if !maps.Equal(shown, working) {
		return fmt.Errorf("shown running are %v, at work %v", shown, working)
	}
	for name, list := range map[string][]string{
		"attached by rows":       attached,
		"attached by the plugin": st.recordedPlaces("attached"),
		"staged":                 staged,
		"staged by the plugin":   st.recordedPlaces("staged"),
		"published":              published,
	} {
		if !slices.Equal(list, claimed) {
			return fmt.Errorf("claimed are %v; %s: %v", claimed, name, list)
		}
	}
	return nil
}

// shownRunning returns the allocations that the servers show as running, with the names of their nodes.
func (c *testCluster) shownRunning(s *agent) (map[string]string, error) {
	allocs, err := get[[]*structs.AllocListStub](s, "/v1/allocations")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, a := range allocs {
		switch {
		case a.ClientStatus == structs.AllocRunning && a.DesiredStatus == structs.AllocDesiredRun:
			found[a.ID] = a.NodeName
		case a.ClientStatus == structs.AllocRunning || a.ClientStatus == structs.AllocPending:
			return nil, fmt.Errorf("allocation %.8s of %s is %s/%s%s",
				a.ID, a.JobID, a.DesiredStatus, a.ClientStatus, events(a))
		}
	}
	return found, nil
}

// liveServer returns a server that runs.
func (c *testCluster) liveServer() *agent {
	i := slices.IndexFunc(c.servers, func(s *agent) bool { return s.cmd != nil })
	return c.servers[i]
}

// nodeName returns the name of a node.
func (c *testCluster) nodeName(id string) string {
	for _, n := range c.nodes {
		if known, _ := os.ReadFile(n.data("client", "node-id")); strings.TrimSpace(string(known)) == id {
			return n.name
		}
	}
	return id
}

// awaitAgreement waits until rows, nodes and storage agree.
func (c *testCluster) awaitAgreement(st *shelfDir) {
	c.t.Helper()
	eventually(c.t, "rows, nodes and storage agree", func() error {
		return c.disagreement(st)
	})
}

// checkCallOrder fails the test if the plugin ever received a call that no plugin may receive.
func (st *shelfDir) checkCallOrder() {
	st.t.Helper()
	if faults := st.read("faults"); faults != "" {
		st.t.Errorf("calls out of order:\n%s", faults)
	}
}

// appendingJob returns a job that appends a word to its volume, and prints all words on it.
func appendingJob(volume, node, word string) jobFile {
	return jobFile{
		name:   volume,
		node:   node,
		uses:   []volumeUse{{source: volume, at: "/data"}},
		script: fmt.Sprintf("echo %s >> /data/words; sync; echo there is $(cat /data/words)\nsleep 86400", word),
	}
}

// runUntilOutput runs a job until all words are in its output on its node.
func (a *agent) runUntilOutput(j jobFile, words ...string) {
	a.t.Helper()
	a.mustEventually("job", "run", "-detach", a.writeJob(j))
	eventually(a.t, fmt.Sprintf("job %s finds %v on %s", j.name, words, j.node), func() error {
		out := ""
		for _, alloc := range a.awaitRunning(j.name, 1) {
			out += alloc.NodeName + ": " + a.logs(alloc.ID)
		}
		for _, word := range append([]string{j.node + ": there is"}, words...) {
			if !strings.Contains(out, word) {
				return fmt.Errorf("the output is %q", out)
			}
		}
		return nil
	})
}

// killTask ends a task like a fault of its own. It waits until the task sleeps.
func (a *agent) killTask(alloc string) {
	a.t.Helper()
	eventually(a.t, "the task of allocation "+alloc+" is killed", func() error {
		for _, pid := range a.taskTree() {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			its := bytes.Contains(environ, []byte("BERTH_ALLOC_ID="+alloc))
			if its && bytes.HasPrefix(cmdline, []byte("sleep\x00")) {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return errors.New("it does not sleep")
	})
}
