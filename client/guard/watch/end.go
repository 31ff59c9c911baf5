package watch

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/internal/boottime"
	"berth/structs"
)

// The parts of structs.GuardKillTime. A look and the unmounts of targets and of staging paths take the rest.
const (
	recordWait  = 500 * time.Millisecond // for a disk that may hang, before the unmounts
	unmountTime = 1500 * time.Millisecond
	killTime    = structs.GuardKillTime - poll - recordWait - 2*unmountTime
)

// watchPause is the time between two looks at an allocation that has ended.
const watchPause = time.Second

// ending is the end of one allocation.
type ending struct {
	g        *guard
	order    *Order // the newest known
	record   Ended
	released bool // its targets are unmounted; under guard.mu
	// unended is the time since which it has to end, 0 when all has ended; under guard.mu.
	unended boottime.Instant
	saving  sync.Mutex  // held by the one write of the record
	unsaved atomic.Bool // the last write has failed
}

// begin ends an allocation, unless that has begun. The caller holds mu.
func (g *guard) begin(o *Order, at boottime.Instant) {
	if g.ending[o.AllocID] != nil {
		return
	}
	// The first mark counts: at may be the end of a later lease.
	marked, err := g.files.Due(o.AllocID)
	if err == nil && marked != nil {
		at = marked.At
	}

	e := &ending{
		g:     g,
		order: o,
		record: Ended{
			AllocID: o.AllocID,
			BootID:  g.boot,
			Due:     at,
		},
		unended: g.clock(),
	}
	g.ending[o.AllocID] = e

	logf("the lease has ended: ending allocation %s", o.AllocID)
	err = g.files.MarkDue(&Due{AllocID: o.AllocID, At: at})
	if err != nil {
		logf("%v", err) // the lease may be renewed, but this guard ends the allocation all the same
	}
	// It ends once the order is gone. If the process ends before, a newer guard ends the allocation.
	go e.run()
}

// run ends the allocation, and keeps it so until its order is gone.
func (e *ending) run() {
	e.kill()
	e.record.Empty = e.g.clock()
	e.record.Time = time.Now()
	// kill may have noted processes, which have ended since.
	e.record.Left = nil
	// The unmounts may hang, so the record that no process is left comes first.
	e.save(recordWait)
	e.unmount()
	e.settle(true)
	e.save(recordWait)
	logf("allocation %s has ended; left: %v", e.order.AllocID, e.record.Left)

	for {
		o := e.g.order(e.order.AllocID)
		if o == nil {
			break
		}
		// A newer order may have more cgroups and volumes.
		e.order = o
		time.Sleep(watchPause)
		e.again()
		if e.unsaved.Load() { // the disk may have space again
			e.save(recordWait)
		}
	}

	e.g.mu.Lock()
	delete(e.g.ending, e.order.AllocID)
	e.g.mu.Unlock()
}

// kill returns when no process of the allocation is left. It records if that takes too long.
func (e *ending) kill() {
	late := time.Now().Add(killTime)
	told := false
	for !e.tryKill() {
		if told || time.Now().Before(late) {
			continue
		}

		told = true
		e.noteProcesses()
		e.save(recordWait)
	}
}

// noteProcesses notes the processes that are left.
func (e *ending) noteProcesses() {
	for _, group := range e.order.AllGroups() {
		pids, err := group.PIDs()
		if len(pids) > 0 || err != nil {
			reason := fmt.Sprintf("processes %v do not end (%v)", pids, err)
			e.record.Left = append(e.record.Left, Left{Path: group.Name(), Reason: reason})
		}
	}
}

// Kill is for an agent that cannot start a guard. It kills the processes of an allocation that is due, as the
// guard does first, and records what is left, which is its error. It returns within structs.GuardKillTime.
func Kill(files OrderFiles, o *Order) error {
	e := &ending{
		g:      &guard{files: files},
		order:  o,
		record: Ended{AllocID: o.AllocID, BootID: o.BootID},
	}

	if e.tryKill() {
		return nil
	}
	e.noteProcesses()
	e.save(recordWait)
	return structs.Unavailablef("allocation %s is due, and has not ended: %v", o.AllocID, e.record.Left)
}

// tryKill kills all processes, and reports whether none is left.
func (e *ending) tryKill() bool {
	// Two tries fit into killTime.
	ctx, cancel := timeout(killTime / 2)
	defer cancel()

	var all sync.WaitGroup
	for _, group := range e.order.AllGroups() {
		all.Go(func() {
			err := group.Kill(ctx)
			if err != nil {
				logf("allocation %s: %v", e.order.AllocID, err)
				// kill tries again at once: without this, an error that comes at once would take a processor.
				time.Sleep(poll)
			}
		})
	}
	all.Wait()
	return e.isEmpty()
}

// isEmpty looks several times, because a process may move in the tree of a cgroup while it is read.
func (e *ending) isEmpty() bool {
	const looks = 3
	for range looks {
		for _, group := range e.order.AllGroups() {
			// After an error the group may have a process.
			populated, err := group.Populated()
			if err != nil || populated {
				return false
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// save writes the record if the order is still there. A disk that hangs does not hold the unmounts up.
func (e *ending) save(wait time.Duration) {
	id := e.order.AllocID
	// The goroutine may outlive this call, so it has a copy.
	record := e.record
	record.Left = slices.Clone(record.Left)

	saved := make(chan struct{})
	go func() {
		defer close(saved)
		e.saving.Lock()
		defer e.saving.Unlock()
		// Release may have removed the order. It would not remove a later record.
		o, err := e.g.files.Get(id)
		if err == nil && o != nil {
			err = e.g.files.WriteEnded(&record)
		}
		if err != nil {
			logf("recording the end of allocation %s: %v", id, err)
		}
		e.unsaved.Store(err != nil)
	}()

	select {
	case <-saved:
	case <-time.After(wait):
		logf("recording the end of allocation %s takes long", id)
	}
}

// unmount unmounts the volumes, and notes what is left.
func (e *ending) unmount() {
	targets := make([]string, len(e.order.Volumes))
	for i, v := range e.order.Volumes {
		targets[i] = v.Target
	}
	// Unmounts may hang, so the lock is free during them.
	left := e.g.unmountAll(targets)

	e.g.mu.Lock()
	e.released = len(left) == 0
	// The targets of all allocations are mounts of the staged volume, so its last user unmounts it.
	var stages []string
	for _, v := range e.order.Volumes {
		user := e.g.userOf(v.Stage)
		if user == "" {
			stages = append(stages, v.Stage)
		} else if e.released { // the last user unmounts it
			logf("%s is still used by allocation %s", v.Stage, user)
		}
	}
	e.g.mu.Unlock()
	e.record.Left = append(left, e.g.unmountAll(stages)...)
	e.record.Unmounted = len(e.record.Left) == 0
}

// userOf returns an allocation that may still use a staging path, "" for none. The caller holds mu.
func (g *guard) userOf(stage string) string {
	for id, o := range g.orders {
		uses := slices.ContainsFunc(o.Volumes, func(v OrderedVolume) bool { return v.Stage == stage })
		if uses && (g.ending[id] == nil || !g.ending[id].released) {
			return id
		}
	}
	return ""
}

// again ends what has started, and unmounts what has been mounted, after the end of the allocation: a call of
// a frozen agent, or of a plugin, may come late.
func (e *ending) again() {
	empty := e.isEmpty()
	if !empty {
		logf("allocation %s has a process again", e.order.AllocID)
		e.settle(false)
		empty = e.tryKill()
	}
	if len(e.order.Volumes) == 0 {
		return
	}

	before := slices.Clone(e.record.Left)
	e.unmount()
	e.settle(empty)
	if !slices.Equal(before, e.record.Left) {
		e.save(recordWait)
	}
}

// settle notes whether all has ended. empty says that no process is left.
func (e *ending) settle(empty bool) {
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	// findLate counts the time to the reboot from unended.
	if empty && e.record.Unmounted {
		e.unended = 0
	} else if e.unended.IsZero() {
		e.unended = e.g.clock()
	}
}

// unmountAll unmounts everything at the paths, all at the same time, and returns what is left.
func (g *guard) unmountAll(paths []string) []Left {
	reasons := make([]string, len(paths))
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() { reasons[i] = g.unmountWithin(path, unmountTime) })
	}
	all.Wait()

	var left []Left
	for i, reason := range reasons {
		if reason != "" {
			left = append(left, Left{Path: paths[i], Reason: reason})
		}
	}
	return left
}

// stuck is the reason of an unmount that has not ended in time. It may still end.
const stuck = "the unmount does not end"

// unmountWithin unmounts everything at a path. It returns the reason for which something may be left. One
// unmount at a time is under way for a path: one that hangs keeps a thread.
func (g *guard) unmountWithin(path string, wait time.Duration) (reason string) {
	g.mu.Lock()
	busy := g.busy[path]
	g.busy[path] = true
	g.mu.Unlock()
	// The unmount of an earlier look is still under way.
	if busy {
		return stuck
	}

	ended := make(chan string, 1)
	// Nothing ends an unmount that hangs in the kernel: the goroutine stays, and busy says so.
	go func() {
		reason := g.unmount(path, time.Now().Add(wait))
		g.mu.Lock()
		delete(g.busy, path)
		g.mu.Unlock()
		ended <- reason
	}()
	// unmount gives up at its deadline, unless the kernel holds it.
	select {
	case reason := <-ended:
		return reason
	case <-time.After(wait + wait/10):
		return stuck
	}
}

// unmount unmounts everything at a path. It waits until the deadline while the mount is busy: the kernel
// takes the last files of a killed process back a moment after its end.
func unmount(path string, deadline time.Time) (reason string) {
	for {
		table, err := mounts.Read()
		if err != nil {
			return err.Error()
		}
		at := path
		// A folder of the volume that is mounted for a task keeps the file system.
		if folders := table.Below(mounts.FoldersOf(path)); len(folders) > 0 {
			at = folders[len(folders)-1]
		} else if !table.Mounted(path) {
			return ""
		}

		// A link in the place of the mount point must not lead to another mount.
		err = unix.Unmount(at, unix.UMOUNT_NOFOLLOW)
		// Another mount may be below the one that is gone.
		if err == nil || time.Now().Before(deadline) {
			if err != nil {
				time.Sleep(20 * time.Millisecond)
			}
			continue
		}
		return (&os.PathError{Op: "unmount", Path: at, Err: err}).Error()
	}
}
