package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
	"berth/client/guard/watch"
	"berth/internal/backoff"
	"berth/structs"
)

// startWait bounds the start of the guard.
const startWait = 5 * time.Second

// start starts the guard, unless one of this agent works. It returns when the guard works. An older one ends
// by itself.
func (g *Guard) start() error {
	g.starting.Lock()
	defer g.starting.Unlock()
	files := g.present()
	// A guard of an earlier agent does not count. The new one replaces it.
	works, err := watch.Works(files.Memory, g.self)
	if works {
		return nil
	}
	if err != nil {
		g.Logger.Warn("failed to look for the guard, starting one", "error", err)
	}

	path := filepath.Join(g.Dir, "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	of := watch.Of{
		Files:    files,
		Agent:    g.self,
		Watchdog: g.Watchdog,
	}
	args := append(append([]string{}, g.Command[1:]...), watch.Args(of)...)
	cmd := exec.Command(g.Command[0], args...)
	// The guard outlives the agent. It keeps neither its directory nor its environment nor its session.
	cmd.Dir = "/"
	cmd.Env = sandbox.RuntimeEnv(1)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = cmd.Run() // it starts the guard and ends
	if err != nil {
		return noGuard("starting it: %v", err)
	}

	return g.awaitWorks(files.Memory, path)
}

// awaitWorks returns when the guard that was started works. log is the path of its log, for the error.
func (g *Guard) awaitWorks(memory, log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for {
		works, err := watch.Works(memory, g.self)
		if works {
			return nil
		}

		if !backoff.Sleep(ctx, 10*time.Millisecond) {
			return noGuard("its log is %s (%v)", log, err)
		}
	}
}

// noGuard returns watch.ErrNoGuard with its reason. It is unavailable, because the agent tries again.
func noGuard(format string, args ...any) error {
	return structs.Unavailablef("%w: %s", watch.ErrNoGuard, fmt.Sprintf(format, args...))
}

// Run keeps the guard running while there are orders, and gives the allocations up that are due. It returns
// when ctx has ended. The guard then stays if anything is left to guard.
func (g *Guard) Run(ctx context.Context) {
	// A crash may have left a part of a write, or a record without its order.
	err := g.present().Sweep()
	if err != nil {
		g.Logger.Warn("failed to remove records of the guard", "error", err)
	}

	for {
		err := g.keep()
		if err != nil {
			g.Logger.Error("failed to keep the guard running, trying again", "error", err)
		}
		if !backoff.Sleep(ctx, time.Second) {
			break
		}
	}
	err = g.leave()
	if err != nil {
		g.Logger.Warn("failed to end the guard", "error", err)
	}
}

// keep is one round of Run.
func (g *Guard) keep() error {
	unfollowed := g.followGroups()
	ids, err := g.present().List()
	if err != nil || len(ids) == 0 {
		return errors.Join(err, unfollowed)
	}

	g.mu.Lock()
	err = g.open()
	g.mu.Unlock()
	if err != nil {
		return err
	}

	err = g.start()
	if err != nil {
		err = errors.Join(err, g.standIn())
	}

	due, unread := g.present().ListDue()
	for _, id := range due {
		g.giveUp(id)
	}
	return errors.Join(err, unread, unfollowed)
}

// standIn does the first work of a guard while none can be started: it marks what is due, and kills its
// processes. The volumes are unmounted when the allocation has been given up.
func (g *Guard) standIn() error {
	g.mu.Lock()
	due, err := g.markDue()
	files := g.files
	g.mu.Unlock()

	var all sync.WaitGroup
	errs := make([]error, len(due))
	for i, o := range due {
		all.Go(func() { errs[i] = watch.Kill(files, o) })
	}
	all.Wait()
	return errors.Join(append(errs, err)...)
}

// giveUp ends an allocation that is due.
func (g *Guard) giveUp(allocID string) {
	g.mu.Lock()
	lost := g.lost[allocID]
	g.mu.Unlock()

	o, err := g.present().Get(allocID)
	if lost || err != nil || o == nil {
		return
	}

	ended, _ := g.present().Ended(allocID) // only for the text
	if !g.Lose(allocID, reasonOf(ended)) {
		// The next round tries again.
		return
	}

	g.Logger.Error("the lease of the node has ended, giving the allocation up", "alloc_id", allocID)
	g.mu.Lock()
	g.lost[allocID] = true
	g.mu.Unlock()
}

// reasonOf is the reason for which an allocation has ended, for users.
func reasonOf(e *watch.Ended) string {
	reason := "the lease of this node ended, and the allocation must not run without one"
	switch {
	case e == nil || e.Empty.IsZero():
	case e.Unmounted:
		reason += fmt.Sprintf(": its guard ended all tasks at %s and unmounted the volumes", clock(e.Time))
	default:
		reason += fmt.Sprintf(": its guard ended all tasks at %s; still mounted: %v", clock(e.Time), e.Left)
	}
	return reason
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// leave ends the guard of this agent and removes its place, unless anything is left to guard.
func (g *Guard) leave() error {
	g.mu.Lock()
	defer g.mu.Unlock()

	ids, err := g.files.List()
	if err != nil || g.file == nil {
		return err
	}
	err = g.file.Close()
	g.file = nil
	// The guard stays for the next agent.
	if len(ids) > 0 {
		return err
	}
	// The guard uses the place, so it ends first.
	return errors.Join(err, watch.Stop(g.files.Memory, startWait), releasePlace(g.Dir))
}
