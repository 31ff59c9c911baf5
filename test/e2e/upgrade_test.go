package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/test/kit"
)

// releasedVar has the path of berth of the commit that the file RELEASED names (scripts/upgrade.sh). With
// upgradeVar the long form of the test runs: that of `make upgrade`.
const (
	releasedVar = "BERTH_RELEASED"
	upgradeVar  = "BERTH_UPGRADE"
)

// upgrade is a cluster of the released version whose agents are replaced, one at a time, while jobs write.
type upgrade struct {
	*testCluster
	writers []writer
	tasks   map[*agent][]int    // the processes of the tasks of each node
	mounts  map[*agent][]string // of volumes
	jobs    []string            // that were registered at the old, the mixed and the new cluster
}

// writer is a job that writes numbers to the volume with its name.
type writer struct {
	job   string
	alloc string
	claim uint64 // the index of its grant
}

// One server and one node: the short form.
func TestUpgrade_OfOneServerAndOneNode(t *testing.T) {
	t.Parallel()
	upgradeReleased(t, 1, 1)
}

// A whole cluster.
func TestUpgrade_OfThreeServersAndTwoNodes(t *testing.T) {
	if os.Getenv(upgradeVar) == "" {
		t.Skip("it takes long: `make upgrade` runs it")
	}
	t.Parallel()
	upgradeReleased(t, 3, 2)
}

// upgradeReleased replaces the servers of a cluster of the released version, the leader last, and then its
// nodes. Jobs, volumes, claims, mounts and processes stay, and nothing that was written is lost.
func upgradeReleased(t *testing.T, servers, nodes int) {
	released := os.Getenv(releasedVar)
	if released == "" {
		kit.SkipLacking(t, "a commit that RELEASED names, in the git history (git fetch --unshallow)")
	}
	u := &upgrade{testCluster: newServersOf(t, released, servers)}
	for range nodes {
		u.addNode().start()
	}
	u.fill()
	leader, followers := u.leader()
	for _, s := range append(followers, leader) {
		s.replace()
		s.awaitPeers(t, servers)
		u.check("server " + s.name)
	}
	for _, n := range u.nodes {
		n.replace()
		u.check("node " + n.name)
	}
	u.finish()
}

// replace restarts an agent with the binary under test.
func (a *agent) replace() {
	a.t.Helper()
	a.stop()
	a.program = binary
	a.start()
}

// fill starts a plugin, and a writer for each node, and notes how all of it is.
func (u *upgrade) fill() {
	u.t.Helper()
	s := u.servers[0]
	s.must("job", "run", example(u.t, "hostpath.hcl"))
	s.healthyNodes("hostpath", len(u.nodes))
	for i := range u.nodes {
		w := writer{job: "writer" + strconv.Itoa(i)}
		s.createVolume(volumeFile{id: w.job, image: true, older: true})
		s.must("job", "run", s.writeJob(jobFile{
			name: w.job,
			uses: []volumeUse{{source: w.job, at: "/data"}},
			script: `i=$(cat /data/lines 2>/dev/null | wc -l)
while :; do i=$((i+1)); echo $i >> /data/lines; echo $i; sleep 0.2; done`,
		}))
		w.alloc = s.awaitRunning(w.job, 1)[0].ID
		claims, err := s.claims(w.job)
		if err != nil || len(claims) != 1 {
			u.t.Fatalf("claims of %s: %v, %v", w.job, claims, err)
		}
		w.claim = claims[0].ModifyIndex
		u.writers = append(u.writers, w)
		s.awaitMoreOutput(w.alloc)
	}
	u.register("old")
	u.tasks = map[*agent][]int{}
	u.mounts = map[*agent][]string{}
	// A plugin runs programs for a short time, which are no tasks.
	eventually(u.t, "each allocation of a plugin and of a writer has one process", func() error {
		count := 0
		for _, n := range u.nodes {
			u.tasks[n] = programsOf(n.data("drivers"))
			count += len(u.tasks[n])
		}
		if want := len(u.nodes) + len(u.writers); count != want {
			return fmt.Errorf("the processes are %v, want %d", u.tasks, want)
		}
		return nil
	})
	for _, n := range u.nodes {
		u.mounts[n] = stagedBelow(n.dir)
	}
}

// register registers a job that no node can run.
func (u *upgrade) register(name string) {
	u.t.Helper()
	s := u.servers[0]
	s.must("job", "run", "-detach", s.writeJob(jobFile{name: name, node: "nobody", script: "true"}))
	u.jobs = append(u.jobs, name)
}

// check compares the cluster with the one before the upgrade.
func (u *upgrade) check(replaced string) {
	u.t.Helper()
	s := u.servers[0]
	s.healthyNodes("hostpath", len(u.nodes))
	for _, w := range u.writers {
		now := s.awaitRunning(w.job, 1)[0]
		if now.ID != w.alloc || now.TaskStates["t"].Restarts != 0 {
			u.t.Errorf("%s: after that of %s its allocation is %s with %d restarts, was %s",
				w.job, replaced, now.ID, now.TaskStates["t"].Restarts, w.alloc)
		}
		eventually(u.t, w.job+" has its claim", func() error {
			claims, err := s.claims(w.job)
			if err != nil {
				return err
			}
			if len(claims) != 1 || claims[0].AllocID != w.alloc || claims[0].ModifyIndex != w.claim {
				return fmt.Errorf("after that of %s the claims are %v", replaced, claims)
			}
			return nil
		})
		s.awaitMoreOutput(w.alloc)
	}
	for _, n := range u.nodes {
		eventually(u.t, n.name+" has the processes from before", func() error {
			now := programsOf(n.data("drivers"))
			if !slices.Equal(now, u.tasks[n]) {
				return fmt.Errorf("after that of %s the processes are %v, were %v", replaced, now, u.tasks[n])
			}
			return nil
		})
		if now := stagedBelow(n.dir); !slices.Equal(now, u.mounts[n]) {
			u.t.Errorf("%s: after that of %s the mounts are %v, were %v",
				n.name, replaced, now, u.mounts[n])
		}
	}
	u.register("after-" + strings.ReplaceAll(replaced, " ", "-"))
}

// finish stops the writers, reads all that they wrote, and looks for all jobs.
func (u *upgrade) finish() {
	u.t.Helper()
	s := u.servers[0]
	all := s.must("job", "status")
	for _, job := range u.jobs {
		if !strings.Contains(all, job) {
			u.t.Errorf("the job %s is lost; there are\n%s", job, all)
		}
	}
	for _, w := range u.writers {
		seen := strings.Fields(s.logs(w.alloc))
		if len(seen) == 0 {
			u.t.Fatalf("%s has no output", w.job)
		}
		s.must("job", "stop", "-purge", w.job)
		s.awaitFree(w.job)
		reader := "reader-of-" + w.job
		s.must("job", "run", s.writeJob(jobFile{
			name: reader,
			uses: []volumeUse{{source: w.job, at: "/data"}},
			script: fmt.Sprintf(`n=$(wc -l < /data/lines)
[ $n -ge %s ] && seq $n | cmp - /data/lines && echo nothing is lost
sleep 1000`, seen[len(seen)-1]),
		}))
		s.awaitOutput(s.awaitRunning(reader, 1)[0].ID, "nothing is lost")
		s.must("job", "stop", "-purge", reader)
		s.awaitFree(w.job)
		s.mustEventually("volume", "delete", w.job)
	}
	s.must("job", "stop", "-purge", "hostpath")
}
