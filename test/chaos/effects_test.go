package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/api/jobs"
	"berth/api/operator"
	"berth/structs"
)

// effect makes a fault and returns its end.
type effect = func(ctx context.Context, w *world, m *member, f *fault) (end func() error, err error)

// nothing is the end of a fault that ends by itself.
func nothing() error { return nil }

func killAgent(_ context.Context, _ *world, m *member, _ *fault) (func() error, error) {
	return m.startAgent, m.killAgent()
}

func freezeAgent(_ context.Context, _ *world, m *member, _ *fault) (func() error, error) {
	pid, _ := m.running()
	if pid == 0 {
		return nil, errors.New("it has no agent")
	}
	return func() error {
		_ = unix.Kill(pid, unix.SIGCONT) // the machine may be off
		return nil
	}, unix.Kill(pid, unix.SIGSTOP)
}

// powerOff switches a machine off. For one of two, an operator says so as soon as its node is down.
func powerOff(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	m.powerOff()
	if !m.server && f.choice%2 == 0 {
		w.confirmLost(ctx, m, f)
	}
	return m.powerOn, nil
}

// The processes of a task or a node besides the agent.
func isPlugin(p process) bool { return len(p.args) > 1 && p.args[1] == "shelf" }

func isExecutor(p process) bool {
	return strings.HasPrefix(filepath.Base(p.args[0]), "berth-executor")
}

func isGuard(p process) bool { return isExecutor(p) && len(p.args) > 1 && p.args[1] == "guard" }

func isSupervisor(p process) bool { return isExecutor(p) && !isGuard(p) }

// signalOne sends a signal to one process of some, and at the end another one, or none.
func signalOne(which func(process) bool, sig, undo unix.Signal) effect {
	return func(_ context.Context, w *world, m *member, f *fault) (func() error, error) {
		found := m.find(which)
		if len(found) == 0 {
			return nil, errors.New("no such process")
		}
		p := found[f.choice%len(found)]
		w.note("#%d signals %d of %s: %q", f.number, p.pid, m.name, p.args[1:])
		if err := unix.Kill(p.pid, sig); err != nil {
			return nil, err
		}
		if undo == 0 {
			return nothing, nil
		}
		return func() error {
			_ = unix.Kill(p.pid, undo) // it may have been killed
			return nil
		}, nil
	}
}

// guardWithin bounds the wait for the next guard of a node.
const guardWithin = time.Minute

// killGuard lasts until the agent has started another guard: the loss of both is not among the faults.
func killGuard(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	end, err := signalOne(isGuard, unix.SIGKILL, 0)(ctx, w, m, f)
	if err != nil {
		return nil, err
	}
	err = await(guardWithin, func() error {
		if _, first := m.boot(); first == 0 || len(m.find(isGuard)) > 0 {
			return nil
		}
		return errors.New("no guard")
	})
	return end, err
}

// find lists the processes of the machine that are of a kind.
func (m *member) find(which func(process) bool) (found []process) {
	for _, p := range m.processes() {
		if which(p) {
			found = append(found, p)
		}
	}
	return found
}

// cut cuts a member off from all others, in one direction or in both.
func cut(sends, hears bool) effect {
	return func(_ context.Context, w *world, m *member, _ *fault) (func() error, error) {
		var heals []func()
		for _, other := range w.all {
			if other == m {
				continue
			}
			if sends {
				heals = append(heals, w.cuts.cut(m, other))
			}
			if hears {
				heals = append(heals, w.cuts.cut(other, m))
			}
		}
		return func() error {
			for _, heal := range heals {
				heal()
			}
			return nil
		}, nil
	}
}

// cutPair cuts a node off from the leader alone. The node works on through the other servers, so it counts as
// well.
func cutPair(_ context.Context, w *world, m *member, _ *fault) (func() error, error) {
	leader := w.leader()
	if leader == nil {
		return nil, errors.New("no server leads")
	}
	heals := []func(){w.cuts.cut(m, leader), w.cuts.cut(leader, m)}
	m.cutPair.Store(true)
	return func() error {
		for _, heal := range heals {
			heal()
		}
		m.cutPair.Store(false)
		return nil
	}, nil
}

// setDevice changes the fence device for a while. The last change counts.
func setDevice(mode deviceMode) effect {
	return func(_ context.Context, w *world, _ *member, _ *fault) (func() error, error) {
		w.device.set(mode)
		return func() error {
			w.device.set(deviceWorks)
			return nil
		}, nil
	}
}

// fillDisk leaves no space on the disk of a machine. The log of a server comes to the end of its segment
// meanwhile. No agent may end by itself.
func fillDisk(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	disk := m.path("data")
	err := await(10*time.Second, func() error { // what is written meanwhile makes it fail
		var now unix.Statfs_t
		if err := unix.Statfs(disk, &now); err != nil {
			return err
		}
		used := (now.Blocks - now.Bfree) * uint64(now.Bsize)
		return unix.Mount("", disk, "", unix.MS_REMOUNT, fmt.Sprint("size=", used))
	})
	if err == nil && m.server {
		w.note("#%d: the log of %s is full after %d writes", f.number, m.name, fillLog(ctx, m))
	}
	return func() error {
		err := unix.Mount("", disk, "", unix.MS_REMOUNT, diskSize)
		return errors.Join(err, m.startAgent()) // it may have been killed by another fault
	}, err
}

// fillLog stores sources of jobs until the log of a server takes no more, or has had a whole segment. It
// returns their number.
func fillLog(ctx context.Context, m *member) (writes int) {
	tasks := []*structs.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "true"}}}
	job := &structs.Job{
		ID:          "filler",
		Type:        structs.JobService,
		Datacenters: []string{"dc1"},
		TaskGroups:  []*structs.TaskGroup{{Name: "g", Tasks: tasks}}, // of which none runs
	}
	for ; writes < 80 && ctx.Err() == nil; writes++ {
		job.Meta = map[string]string{"round": strconv.Itoa(writes)}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := jobs.Register(limited, m.client, job, jobs.RegisterOptions{
			Submission: &structs.JobSubmission{Source: strings.Repeat("x", 900_000), Format: structs.FormatHCL2},
		})
		cancel()
		health, _ := operator.ReadHealth(ctx, m.client)
		if err != nil || health != nil && health.Server != nil && !health.Server.OK {
			break
		}
	}
	return writes
}

// rejoinWithin bounds the wait for a server that has lost its data.
const rejoinWithin = 3 * time.Minute

// damage changes a byte of a file of a server that does not run. The server finds it and does not start,
// or the byte is in no use. In the first case it loses its data, as the error demands. The fault lasts
// until it is back: no other server may lose its data meanwhile.
func damage(ctx context.Context, w *world, m *member, f *fault) (func() error, error) {
	if err := m.killAgent(); err != nil {
		return nil, err
	}
	path, err := flipByte(m.path("data", "berth", "server", "raft"), f.choice)
	if err != nil {
		return nil, errors.Join(err, m.startAgent())
	}
	w.note("#%d changed a byte of %s", f.number, path)
	m.mayEnd.Store(true)
	defer m.mayEnd.Store(false)
	sleep(ctx, time.Second)
	err = await(rejoinWithin, func() error {
		if err := m.startAgent(); err != nil {
			return err
		}
		if m.endsWithin(2 * time.Second) {
			w.note("#%d: %s does not start with it, and loses its data", f.number, m.name)
			return errors.Join(os.RemoveAll(m.path("data", "berth")), errors.New("it has lost its data"))
		}
		return w.voters()
	})
	return nothing, err
}

// endsWithin reports whether the agent ends within a time.
func (m *member) endsWithin(d time.Duration) bool {
	_, ended := m.running()
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

// flipByte changes one bit of a file below a directory. It returns the path and the place.
func flipByte(dir string, choice int) (string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no files in %s: %w", dir, err)
	}
	path := files[choice%len(files)]
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	used := len(strings.TrimRight(string(text), "\x00")) // the rest is reserved
	if used == 0 {
		return "", errors.New(path + " is empty")
	}
	at := int64(choice/len(files)) % int64(used)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = file.WriteAt([]byte{text[at] ^ 4}, at)
	return fmt.Sprintf("%s at %d of %d", path, at, used), errors.Join(err, file.Close())
}

// voters returns nil if every server is healthy and has a vote, and no other one is a member.
func (w *world) voters() error {
	return call(func(ctx context.Context) error {
		leader := w.leader()
		if leader == nil {
			return errors.New("no leader")
		}
		health, _, err := operator.AutopilotHealth(ctx, leader.client, nil)
		if err != nil {
			return err
		}
		voters := 0
		for _, s := range health.Servers {
			if s.Voter && s.Healthy {
				voters++
			}
		}
		if voters != len(w.servers) || len(health.Servers) != len(w.servers) {
			return fmt.Errorf("%d servers, of which %d vote and are healthy", len(health.Servers), voters)
		}
		return nil
	})
}
