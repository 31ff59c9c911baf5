package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/volumes"
	"berth/test/guarantees"
)

// settleFor bounds the time in which a cluster without faults comes to rest. A busy machine needs a
// multiple of the usual time.
const settleFor = 5 * time.Minute

// watch reads the journal until the context ends.
func (w *world) watch(ctx context.Context) {
	leases := newLeaseWatch(w)
	noted := 0
	for sleep(ctx, time.Second) {
		w.journal.check()
		leases.look()

		// checkEnd judges them. The log shows beside which faults they were made.
		faults := w.storageFaults()
		for _, line := range faults[noted:] {
			w.note("the storage: %s", line)
		}
		noted = len(faults)
	}
}

// storageFaults lists the calls that the storage has complained about, in their order.
func (w *world) storageFaults() (lines []string) {
	text, _ := os.ReadFile(filepath.Join(w.shelf(), "faults"))
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// calmDown ends what faults have left, and waits until everything runs.
func (w *world) calmDown() {
	w.device.set(deviceWorks)
	for _, m := range w.all {
		m.busy <- struct{}{} // a machine that the device has switched off is on again
		if err := errors.Join(m.powerOn(), m.startAgent()); err != nil {
			w.violate(harness, "%s does not start: %v", m.name, err)
		}
		<-m.busy
	}
	w.note("all faults have ended")
	for _, step := range []struct {
		what  string
		check func() error
	}{
		{"all nodes are eligible", w.undrainAll},
		{"all nodes are ready", w.nodesReady},
		{"the plugin runs everywhere", w.pluginReady},
		{"all jobs are registered", w.registerAll},
		{"all writers write", w.allWriteAgain},
		{"all servers vote", w.voters},
		{"all clocks are right", w.rightClocks},
		{"the schedule goes on", w.launchesAgain},
		{"the servers agree", w.serversAgree},
	} {
		if err := await(settleFor, step.check); err != nil {
			guarantee := guarantees.NothingStuck
			switch {
			case errors.Is(err, errDiffer):
				guarantee = guarantees.EqualServers
			case errors.Is(err, errSilent):
				guarantee = guarantees.ScheduleGoesOn
			}
			w.violate(guarantee, "%s: %v", step.what, err)
			w.explain()
			return
		}
		w.note("%s", step.what)
	}
}

// allWriteAgain returns nil once each writer has written since it was called.
func (w *world) allWriteAgain() error {
	return await(settleFor, w.allWrite(w.ackCounts()))
}

func (w *world) undrainAll() error {
	for _, m := range w.nodes {
		err := w.drain(w.servers[0].client, m, nodes.DrainOrder{MarkEligible: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// explain logs why jobs and volumes wait.
func (w *world) explain() {
	for _, j := range w.jobs {
		_ = call(func(ctx context.Context) error {
			why, _, err := volumes.Why(ctx, w.servers[0].client, j.name, nil)
			w.note("volume why %s: %s %v", j.name, asJSON(why), err)
			reason, _, err := jobs.Why(ctx, w.servers[0].client, j.name, nil)
			w.note("job why %s: %s %v", j.name, asJSON(reason), err)
			return nil
		})
	}
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// states are the lists of a server that are compared. Each server reads its own rows.
var states = []string{"/v1/jobs", "/v1/allocations", "/v1/nodes", "/v1/volumes?type=csi",
	"/v1/plugins?type=csi", "/v1/evaluations", "/v1/volumes/claims", "/v1/deployments", "/v1/acl/tokens"}

var errDiffer = errors.New("the rows of two servers differ")

// serversAgree returns nil if all servers have equal rows at one index.
func (w *world) serversAgree() error {
	for _, path := range states {
		var want string
		for _, s := range w.servers {
			got, err := readStale(s, path)
			if err != nil {
				return err
			}
			if s != w.servers[0] && got != want {
				return fmt.Errorf("%s: %w:\n%s\n%s", path, errDiffer, want, got)
			}
			want = got
		}
	}
	return nil
}

// readStale returns the index and the body of a list, as the rows of one server have it.
func readStale(m *member, path string) (string, error) {
	path, options, _ := strings.Cut(path, "?")
	query, err := url.ParseQuery(options + "&stale")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	resp, err := m.get(ctx, path, query)
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", path, m.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.Header.Get("X-Nomad-Index") + " " + string(body), err
}

// mustNotBe has the calls that no plugin may ever receive. A plugin that was frozen may do other calls late.
var mustNotBe = regexp.MustCompile(`is detached from|and mounted on|is deleted while|expanded while`)

// checkEnd stops everything and looks for what is left.
func (w *world) checkEnd() {
	w.journal.checkRecords()
	for _, line := range w.storageFaults() {
		if mustNotBe.MatchString(line) {
			w.violate(guarantees.DetachedUnmounted, "%s", line)
		}
	}
	if w.violations > 0 {
		return // what is stuck is left, too
	}
	names := append(w.volumes(), periodicJob, pluginJob)
	for _, name := range names {
		err := await(settleFor, func() error { return w.purge(name) })
		if err != nil {
			w.violate(guarantees.NothingStuck, "job %s does not end: %v", name, err)
			w.explain()
			return
		}
	}
	for _, m := range w.nodes {
		if err := await(settleFor, m.clean); err != nil {
			w.violate(guarantees.NothingLeft, "%s: %v", m.name, err)
		}
	}
}

// purge stops a job and returns nil once nothing of it is left.
func (w *world) purge(name string) error {
	return call(func(ctx context.Context) error {
		c := w.servers[0].client
		allocs, _, err := jobs.AllocationsOf(ctx, c, name, true, nil)
		if err != nil {
			return err
		}
		_, err = jobs.Deregister(ctx, c, name, jobs.DeregisterOptions{})
		if err != nil {
			return err
		}
		for _, a := range allocs {
			if !a.ClientTerminal() {
				return fmt.Errorf("allocation %s is %s", a.ID, a.ClientStatus)
			}
		}
		if name == pluginJob || name == periodicJob {
			return nil
		}
		v, _, err := volumes.Get(ctx, c, name, nil)
		if err == nil && len(v.Claims)+len(v.Attachments) > 0 {
			err = fmt.Errorf("volume %s has %d claims and %d attachments", name, len(v.Claims), len(v.Attachments))
		}
		return err
	})
}

// clean returns nil if the machine has nothing of a task: no process, mount or cgroup.
func (m *member) clean() error {
	pid, _ := m.running()
	for _, p := range m.processes() {
		if p.pid != pid && !isGuard(p) && p.parent != pid {
			return fmt.Errorf("process %d is left: %q", p.pid, p.args)
		}
	}
	left, err := m.mountsOfVolumes()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%d mounts are left, the first is %s", len(left), left[0].Mountpoint)
	}
	if groups := cgroupsOf(m.cgroup()); slices.ContainsFunc(groups, func(path string) bool {
		return filepath.Base(path) != m.cgroup()
	}) {
		return fmt.Errorf("cgroups are left: %q", groups)
	}
	return nil
}

// mountsOfVolumes lists the mounts of volumes on the machine.
func (m *member) mountsOfVolumes() ([]*mountinfo.Info, error) {
	_, first := m.boot()
	return mountinfo.GetMountsFromReader(openTable(first), func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.Contains(i.Root, "/shelf/vol/"), false
	})
}

// openTable returns the mount table of a process.
func openTable(pid int) io.Reader {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return strings.NewReader(err.Error())
	}
	return strings.NewReader(string(text))
}
