package access

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/internal/boottime"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

func TestLock_RunsTheCommandWhileItHoldsTheLock(t *testing.T) {
	s := newVariableStore(t)
	out, _ := s.run(7, "", "lock", "app/leader", "echo", "held;", "exit 7")
	if strings.TrimSpace(out) != "held" {
		t.Errorf("got %q", out)
	}
	<-s.released
	out, _ = newVariableStore(t).run(0, "", "lock", "-shell=false", "app/leader", "echo", "$HOME")
	if strings.TrimSpace(out) != "$HOME" {
		t.Errorf("without a shell: got %q", out)
	}
}

// TestLock_SaysForWhatItWaits changes the holder of a lock, and ends it, each time after the line about it.
func TestLock_SaysForWhatItWaits(t *testing.T) {
	s := newVariableStore(t)
	holders := []struct {
		lock *access.VariableLock
		at   time.Time
		text string
	}{
		{&access.VariableLock{}, time.Unix(60, 0), "another one has it; the variable changed at 1970-01-01T00:01:00Z\n"},
		{&access.VariableLock{}, time.Unix(90, 0), "another one has it; the variable changed at 1970-01-01T00:01:30Z\n"},
		{nil, time.Unix(2000, 0), "nobody has it now; after a holder that did not renew it, nobody gets it during its delay\n"},
	}
	next := 0
	s.inTheWay = func() *access.OpenVariable {
		if next == len(holders) {
			return nil
		}
		v := &access.OpenVariable{}
		v.Lock = holders[next].lock
		v.ModifyTime = holders[next].at.UnixNano()
		next++
		return v
	}

	out, errs := s.run(0, "", "lock", "app/leader", "echo", "held")
	if strings.TrimSpace(out) != "held" {
		t.Errorf("got %q", out)
	}
	want := ""
	for _, h := range holders {
		want += `waiting for the lock of the variable "app/leader": ` + h.text
	}
	if errs != want {
		t.Errorf("it said %q, want %q", errs, want)
	}
}

func TestLock_IsInterruptedWhileItWaits(t *testing.T) {
	s := newVariableStore(t)
	ctx, interrupt := context.WithCancel(t.Context())
	s.inTheWay = func() *access.OpenVariable { return &access.OpenVariable{} }
	apitest.On(s.caller, access.VariableGet, func(
		ctx context.Context, _ *access.VariableGetRequest,
	) (*access.VariableGetResponse, error) {
		interrupt()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	var errs strings.Builder
	root := command.Command{Name: "berth", Sub: []command.Command{{Name: "var", Sub: VariableCommands}}}
	line := []string{"var", "lock", "-address", s.addr, "-namespace", "prod", "app/leader", "true"}
	code := root.Main(ctx, line, command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
	const want = `Error: interrupted while it waited for the lock of the variable "app/leader"; ` +
		"to see the variable: berth var get -namespace prod app/leader\n"
	if code != structs.KindTimeout.ExitCode() || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

func TestLock_ItsWaitFailsWithTheNextStep(t *testing.T) {
	s := newVariableStore(t)
	s.inTheWay = func() *access.OpenVariable { return &access.OpenVariable{} }
	apitest.On(s.caller, access.VariableGet, func(
		context.Context, *access.VariableGetRequest,
	) (*access.VariableGetResponse, error) {
		return nil, structs.Internalf("the state is damaged")
	})
	_, errs := s.run(1, "", "lock", "app/leader", "true")
	if !strings.HasSuffix(errs, "the state is damaged; to see the variable: berth var get app/leader\n") {
		t.Errorf("it said %q", errs)
	}
}

// The child and its own children end when the lock is lost.
func TestLock_EndsTheCommandWhenTheLockIsLost(t *testing.T) {
	s := newVariableStore(t)
	pid := filepath.Join(t.TempDir(), "pid")
	s.lostWith = pid
	child := fmt.Sprintf("sleep 600 & echo $! > %[1]s.new; mv %[1]s.new %[1]s; wait", pid)
	_, errs := s.run(5, "", "lock", "-ttl", "3s", "app/leader", child)
	if !strings.Contains(errs, `the lock of the variable "app/leader" is lost`) ||
		!strings.HasSuffix(errs, "berth var get app/leader\n") {
		t.Errorf("got %s", errs)
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, strings.TrimSpace(string(text)))
}

// daemonic is a program that starts a child, and a daemon in a session of its own, and writes the IDs of all
// three.
const daemonic = `sleep 600 & echo $!; (setsid sh -c 'echo $$; exec sleep 600' &); echo $$; wait`

// readPids reads the IDs of n processes.
func readPids(t *testing.T, r io.Reader, n int) (pids []string) {
	t.Helper()
	for lines := bufio.NewScanner(r); len(pids) < n; {
		if !lines.Scan() {
			t.Fatalf("the command has ended after %v: %v", pids, lines.Err())
		}
		pids = append(pids, lines.Text())
	}
	return pids
}

// childProcess is a berth of its own that holds a lock.
type childProcess struct {
	*exec.Cmd
	out  io.Reader
	errs strings.Builder
	pids []string // what it has written first
}

// startLock starts berth var lock with arguments as a process, and reads n IDs of processes from it. A shell
// becomes that process after it has run a prefix.
func (s *variableStore) startLock(n int, prefix string, args ...string) *childProcess {
	s.t.Helper()
	line := []string{"-c", prefix + `exec "$@"`, "sh", os.Args[0], "var", "lock", "-address", s.addr}
	p := &childProcess{Cmd: exec.Command("/bin/sh", append(line, args...)...)}
	p.Stderr = &p.errs
	var err error
	p.out, err = p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	p.pids = readPids(s.t, p.out, n)
	return p
}

// signalTo sends a signal to a process.
func signalTo(t *testing.T, pid string, sig syscall.Signal) {
	t.Helper()
	id, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(id, sig)
	}
	if err != nil {
		t.Errorf("%s to process %s: %v", sig, pid, err)
	}
}

// awaitCode waits for the end of berth, with a code.
func (p *childProcess) awaitCode(t *testing.T, want int) {
	t.Helper()
	_, _ = io.Copy(io.Discard, p.out) // until all that have it have ended
	_ = p.Wait()
	if got := p.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d: %s", got, want, p.errs.String())
	}
}

func (s *variableStore) isReleased() bool {
	select {
	case <-s.released:
		return true
	default:
		return false
	}
}

// Nobody renews the lock of a berth that was killed: its command ends before another one gets the lock.
func TestLock_EndsTheCommandWhenBerthIsKilled(t *testing.T) {
	s := newVariableStore(t)
	berth := s.startLock(3, "", "app/leader", daemonic)
	if err := berth.Process.Kill(); err != nil {
		t.Error(err)
	}
	for _, pid := range berth.pids {
		awaitEnd(t, pid)
	}
	berth.awaitCode(t, -1)
	if s.isReleased() {
		t.Error("the lock was given back")
	}
}

// Nobody renews the lock of a berth that stands still, as after Ctrl-Z. A command that ignores SIGTERM is
// killed before another one gets the lock, which is after the TTL and the delay.
func TestLock_EndsTheCommandWhenBerthIsStopped(t *testing.T) {
	s := newVariableStore(t)
	renewed := make(chan struct{}, 100)
	s.onRenewal(func(int) { renewed <- struct{}{} })
	berth := s.startLock(3, "", "-ttl", "3s", "-delay", "4s", "app/leader", `trap "" TERM; `+daemonic)
	<-renewed
	signalTo(t, strconv.Itoa(berth.Process.Pid), syscall.SIGSTOP)
	stopped := boottime.Now()
	for _, pid := range berth.pids {
		awaitEnd(t, pid)
	}
	if lasted := boottime.Now().Sub(stopped); lasted > 7*time.Second {
		t.Errorf("the command ran for %s without its lock", lasted)
	}
	if s.isReleased() {
		t.Error("the lock was given back")
	}
	signalTo(t, strconv.Itoa(berth.Process.Pid), syscall.SIGCONT)
	berth.awaitCode(t, structs.KindConflict.ExitCode())
	if !strings.Contains(berth.errs.String(), "because berth was stopped") {
		t.Errorf("it said %q", berth.errs.String())
	}
}

func TestLock_LastsAsLongAsItIsRenewed(t *testing.T) {
	s := newVariableStore(t)
	file := filepath.Join(t.TempDir(), "renewed")
	s.onRenewal(func(n int) {
		if n == 5 { // after 5 seconds
			clitest.WriteFile(t, file, nil)
		}
	})
	s.run(0, "", "lock", "-ttl", "3s", "-delay", "4s", "app/leader",
		"until [ -e "+file+" ]; do sleep 0.05; done")
}

// Without the guard, berth ends the command with its daemons, and no process that it had before the command.
func TestLock_EndsTheCommandWhenItsGuardIsKilledOrStopped(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newVariableStore(t)
			before := "sleep 600 >/dev/null 2>&1 & echo $!; "
			berth := s.startLock(5, before, "app/leader", "echo $PPID; "+daemonic)
			other := berth.pids[0]
			defer signalTo(t, other, syscall.SIGKILL)
			signalTo(t, berth.pids[1], sig)
			for _, pid := range berth.pids[1:] {
				awaitEnd(t, pid)
			}
			berth.awaitCode(t, structs.KindPrecondition.ExitCode())
			text, err := os.ReadFile("/proc/" + other + "/stat")
			if err != nil || strings.Contains(string(text), ") Z ") {
				t.Errorf("the process that is not of the command has ended: %s %v", text, err)
			}
			if !strings.Contains(berth.errs.String(), "the guard of the command has ended (signal: killed)") {
				t.Errorf("it said %q", berth.errs.String())
			}
			if !s.isReleased() {
				t.Error("the lock was not given back")
			}
		})
	}
}

// A process that cannot be ended now may still write, so the lock is not given back.
func TestLock_IsNotReleasedBeforeAllHaveEnded(t *testing.T) {
	const freezer = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezer); err != nil {
		kit.SkipLacking(t, "the freezer of cgroup v1: in v2 a kill ends a frozen process")
	}
	group, err := os.MkdirTemp(freezer, "berth-lock-")
	if err != nil {
		kit.SkipLacking(t, "the right to make cgroups")
	}
	defer func() {
		for errors.Is(os.Remove(group), unix.EBUSY) { // the last process leaves it a moment after its end
			time.Sleep(time.Millisecond)
		}
	}()
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(group, file), []byte(text), 0); err != nil {
			t.Error(err)
		}
	}

	s := newVariableStore(t)
	berth := s.startLock(2, "", "-delay", "4s", "app/leader", "echo $PPID; echo $$; exec sleep 600")
	guard, child := berth.pids[0], berth.pids[1]
	write("cgroup.procs", child)
	write("freezer.state", "FROZEN")
	signalTo(t, guard, syscall.SIGKILL)
	_ = berth.Wait()
	write("freezer.state", "THAWED")
	awaitEnd(t, child)
	if s.isReleased() {
		t.Error("the lock was given back")
	}
	want := "is not released, and ends after 15s: the processes [" + child + "] of the command do not end"
	if !strings.Contains(berth.errs.String(), want) {
		t.Errorf("it said %q", berth.errs.String())
	}
}

// The processes that the command leaves behind do not outlive the lock.
func TestLock_EndsWhatTheCommandLeaves(t *testing.T) {
	s := newVariableStore(t)
	file := filepath.Join(t.TempDir(), "pid")
	daemon := fmt.Sprintf("setsid sh -c 'echo $$ > %s; exec sleep 600'", file)
	s.run(0, "", "lock", "app/leader", daemon+" & until [ -s "+file+" ]; do :; done")
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, strings.TrimSpace(string(pid)))
}

// guarded is a guard that this test started as berth does.
type guarded struct {
	*exec.Cmd
	lockHolder
	in  io.WriteCloser
	pid string // of the command
}

// startGuard starts a guard with a lock of three seconds. Its program writes the ID of its process.
func startGuard(t *testing.T, grace time.Duration, program string) *guarded {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { _ = w.Close() })
	g := &guarded{Cmd: exec.Command("/proc/self/exe", "executor", GuardArg, fmt.Sprint(int64(grace)),
		"/bin/sh", "-c", program)}
	g.guard = w
	g.lasts(3 * time.Second)
	g.ExtraFiles = []*os.File{r}
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.in, err = g.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.StdoutPipe()
	if err == nil {
		err = g.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	g.pid = readPids(t, out, 1)[0]
	return g
}

// lasts tells the guard how long the lock lasts from now.
func (g *guarded) lasts(ttl time.Duration) {
	g.until = boottime.Now().Add(ttl)
	g.tellGuard()
}

func (g *guarded) awaitCode(t *testing.T, want int) {
	t.Helper()
	awaitEnd(t, g.pid)
	_ = g.Wait()
	if got := g.ProcessState.ExitCode(); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
}

// The guard ends the command by SIGTERM, and by SIGKILL after the grace. It reports how it has ended.
func TestGuard(t *testing.T) {
	const stubborn = `trap "" TERM; echo $$; while :; do sleep 600; done`
	const never = time.Hour
	lost := structs.KindConflict.ExitCode()
	t.Run("code", func(t *testing.T) {
		startGuard(t, never, "echo $$; exit 7").awaitCode(t, 7)
	})
	t.Run("signal", func(t *testing.T) {
		startGuard(t, never, "echo $$; kill -USR1 $$").awaitCode(t, 128+int(syscall.SIGUSR1))
	})
	t.Run("berth is gone", func(t *testing.T) {
		g := startGuard(t, never, `trap "exit 9" TERM; echo $$; while :; do sleep 0.01; done`)
		_ = g.guard.Close()
		g.awaitCode(t, 9)
	})
	t.Run("berth is gone and the command is stubborn", func(t *testing.T) {
		g := startGuard(t, time.Millisecond, stubborn)
		_ = g.guard.Close()
		awaitEnd(t, g.pid)
		_ = g.Wait()
	})
	t.Run("berth is late", func(t *testing.T) {
		startGuard(t, time.Millisecond, stubborn).awaitCode(t, lost)
	})
	t.Run("the grace is over, too", func(t *testing.T) { // as after a suspend of the machine
		g := startGuard(t, time.Minute, stubborn)
		g.lasts(-time.Minute)
		g.awaitCode(t, lost)
	})
	t.Run("the guard is late", func(t *testing.T) {
		g := startGuard(t, time.Millisecond, "echo $$; read line; exit 7")
		guard := strconv.Itoa(g.Process.Pid)
		signalTo(t, guard, syscall.SIGSTOP)
		over := g.until.Add(time.Millisecond)
		g.lasts(time.Hour)
		for boottime.Now() < over {
			time.Sleep(time.Millisecond)
		}
		signalTo(t, guard, syscall.SIGCONT)
		_ = g.in.Close()
		g.awaitCode(t, 7)
	})
}

// A command does not begin after the end of its lock.
func TestGuard_RunsNothingWithoutTheLock(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := &lockHolder{guard: w, until: boottime.Now()}
	h.tellGuard()
	_ = w.Close()
	cmd := exec.Command("/proc/self/exe", "executor", GuardArg, "1", "/bin/sh", "-c", "echo begun")
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, _ := cmd.CombinedOutput()
	if string(out) != "the guard of a lock: the lock has ended before the command began\n" {
		t.Errorf("it said %q", out)
	}
}

// awaitEnd waits for the end of a process.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	id, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(id, 0)
	if err != nil {
		return // it is gone
	}
	defer func() { _ = unix.Close(fd) }()
	var n int
	err = unix.EINTR // a signal to this process, such as the end of a child, ends a call early
	for deadline := time.Now().Add(20 * time.Second); errors.Is(err, unix.EINTR); {
		left := max(time.Until(deadline), 0)
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
	}
	if n != 1 {
		t.Errorf("process %s is alive: %v", pid, err)
		_ = unix.Kill(id, unix.SIGKILL)
	}
}
