package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"berth/internal/process"
)

// A kill decides on the fields of /proc/<pid>/stat. A program chooses its name, which is in front of them.
func TestProcStat_WithAnOddName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "42", "stat")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	proc, err := procfs.NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"sh", "", "two words", "(sh)", "a) Z 1 (b", "))((", "a\n43 (b) Z 1", " ) S 1 1 1"}
	for _, name := range names {
		before := strings.Repeat("0 ", 13)
		after := strings.Repeat(" 0", 22)
		text := fmt.Sprintf("42 (%s) S 7 42 41 0 -1 %s900%s\n", name, before, after)
		p, err := proc.Proc(42)
		if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := p.Stat()
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, want := refFrom(s), (process.Ref{PID: 42, Start: 900}); got != want {
			t.Errorf("%q: got %+v, want %+v", name, got, want)
		}
		if s.PPID != 7 || s.Session != 41 || s.State != "S" || s.Comm != name {
			t.Errorf("%q: got parent %d, session %d, state %s, name %q", name, s.PPID, s.Session, s.State, s.Comm)
		}
	}
}

// A supervisor that is killed between the start of its task and the record of it leaves no task behind.
func TestKill_FindsATaskThatIsNotRecordedYet(t *testing.T) {
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	_, err = fmt.Fscan(out, &pid)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	child, err := process.RefOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Kill(context.Background()) })
	supervisor, err := process.RefOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.BootID()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &record{TaskID: "a1/web", Boot: boot, Supervisor: supervisor}
	if err := r.writeRecord(dir); err != nil {
		t.Fatal(err)
	}
	begun := &task{id: "a1/web", dir: dir, child: cmd}
	if err := begun.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = eachProcess(func(s procfs.ProcStat) {
		if p := refFrom(s); s.State != zombie && (p == child || p == supervisor) {
			t.Errorf("process %d (%s) is left", p.PID, s.Comm)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// sleeper is a process that is not the supervisor of a task.
func sleeper(t *testing.T) (process.Ref, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ref, err := process.RefOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return ref, cmd
}

// recorded is a task with a record, whose lock is free.
func recorded(t *testing.T, supervisor, program process.Ref) *task {
	t.Helper()
	boot, err := process.BootID()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &record{TaskID: "a1/web", Boot: boot, Supervisor: supervisor, Task: program}
	if err := r.writeRecord(dir); err != nil {
		t.Fatal(err)
	}
	return &task{id: "a1/web", dir: dir}
}

// A supervisor of an older version knows its pids only in its own namespace.
func TestKill_SignalsNoProcessOfAForeignRecord(t *testing.T) {
	bystander, _ := sleeper(t)
	_, child := sleeper(t)
	pid1 := process.Ref{PID: 1} // without its start time, so that nothing signals it in any case
	for name, c := range map[string]struct {
		supervisor process.Ref
		child      *exec.Cmd
		ends       bool
	}{
		"of this agent":    {bystander, child, true},
		"of another agent": {pid1, nil, false},
	} {
		foreign := recorded(t, c.supervisor, bystander)
		foreign.child = c.child
		if err := foreign.kill(t.Context()); (err == nil) != c.ends {
			t.Errorf("%s: got %v", name, err)
		}
		fd, err := bystander.Open()
		if err != nil || fd < 0 || inStates(bystander.PID, stoppedStates) {
			t.Fatalf("%s: another process was signalled (%v)", name, err)
		}
		_ = unix.Close(fd)
	}
	if child.ProcessState == nil {
		t.Error("the supervisor runs")
	}
}

// A supervisor that this agent has not started ends a moment after its lock.
func TestAwaitSupervisorEnd_AwaitsTheProcess(t *testing.T) {
	supervisor, cmd := sleeper(t)
	recovered := recorded(t, supervisor, supervisor)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := recovered.awaitSupervisorEnd(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the supervisor runs: got %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := recovered.awaitSupervisorEnd(t.Context()); err != nil {
		t.Error(err)
	}
}
