package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/hooks/artifact/download"
)

// groupParent is the cgroup below which each download has its own, in every hierarchy.
const groupParent = "berth/artifacts"

// groupMemory bounds the memory of the processes of one download together.
var groupMemory int64 = download.MaxMemory

// The other bounds of the processes of one download together.
const (
	groupPIDs   = 256 // git starts a thread for each core
	groupShares = 256 // MHz, beside the tasks' own
	groupCores  = 2
)

// Slots bounds the downloads that run at a time on a node. Others wait.
type Slots struct {
	Most    int64
	running *semaphore.Weighted
}

// NewSlots lets most downloads run at a time.
func NewSlots(most int64) *Slots {
	return &Slots{most, semaphore.NewWeighted(most)}
}

// The bounds of NodeSlots.
const (
	minRunning = 2
	maxRunning = 8
)

// NodeSlots returns the slots of this node: all downloads together may have a quarter of its memory, but two
// always run.
func NodeSlots() *Slots {
	var info unix.Sysinfo_t
	err := unix.Sysinfo(&info)
	if err != nil {
		return NewSlots(minRunning)
	}
	return NewSlots(slotsOf(info.Totalram * uint64(info.Unit)))
}

// slotsOf returns how many downloads may run on a machine with some memory.
func slotsOf(memory uint64) int64 {
	const share = 4
	return int64(min(max(memory/share/download.MaxMemory, minRunning), maxRunning))
}

// Groups makes the cgroups of downloads. On a machine without them each process has only its own bounds.
type Groups struct {
	Machine *cgroups.Machine
	Logger  hclog.Logger

	mu   sync.Mutex
	work bool // the agent has made a cgroup
	told bool // the log says that there are none
}

// usable reports whether this node has cgroups. After the agent could make one, the node has them: a later
// failure is one of that group.
func (g *Groups) usable() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.work {
		return true
	}
	// After a failure the next download looks again.
	err := g.Machine.Probe(groupParent)
	g.work = err == nil
	if err != nil && !g.told {
		g.told = true
		g.Logger.Warn("downloads have no cgroups, only bounds of single processes", "error", err)
	}
	return g.work
}

// groupName is the name of the cgroup of a task's downloads. One of them runs at a time.
func (a *artifacts) groupName() string {
	// The path of the directory is unique on the node, and too long for the name of a cgroup.
	return fmt.Sprintf("%x", sha256.Sum256([]byte(a.taskDir)))[:16]
}

// makeGroup makes the cgroup of a download into a scratch directory, an empty one if this node has none. It
// first ends what a killed agent has left in it.
func (a *artifacts) makeGroup(s *scratch, most usage) (*cgroups.Group, error) {
	groups := a.cfg.Groups
	if !groups.usable() {
		return &cgroups.Group{}, nil
	}

	limits := cgroups.Limits{
		CPUShares:   groupShares,
		CPUCores:    groupCores,
		MemoryBytes: groupMemory,
		PIDs:        groupPIDs,
	}

	var st unix.Statfs_t
	err := unix.Statfs(s.path(), &st)
	if err == nil && st.Type == unix.TMPFS_MAGIC { // its files are memory of the group
		limits.MemoryBytes += most.bytes
	}

	ctx, stop := context.WithTimeout(context.Background(), groupPatience)
	defer stop()
	err = groups.Machine.Path(groupParent, a.groupName()).Kill(ctx)
	var g *cgroups.Group
	if err == nil {
		g, err = groups.Machine.New(groupParent, a.groupName(), limits)
	}
	if err != nil {
		return nil, fmt.Errorf("no cgroup bounds the download: %w", err)
	}

	return g, nil
}

// groupPatience bounds the end of the processes of a download that were killed.
const groupPatience = 10 * time.Second

// remove ends what is left in the cgroup of a download, and removes it. The error is the download's, or says
// that the download needed more memory than it may have, unless ctx has ended it. The next download of the
// task removes a group that is left.
func (g *Groups) remove(ctx context.Context, group *cgroups.Group, err error) error {
	// The counter goes with the group, so this is read first.
	if err != nil && ctx.Err() == nil && group.OOMKills() > 0 {
		err = fmt.Errorf("it needs more than the %d MiB of memory that a download may have", groupMemory>>20)
	}
	// ctx may have ended: what is left goes in any case.
	patient, stop := context.WithTimeout(context.Background(), groupPatience)
	defer stop()
	left := errors.Join(group.Kill(patient), group.Remove())
	if left != nil {
		g.Logger.Warn("failed to remove the cgroup of a download", "error", left)
	}
	return err
}
