package vars

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
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/admin"
	"berth/structs/variable"
)

// TestMain runs the tests. A test starts this program again as the guard of a command, as berth does, and as
// the command line.
func TestMain(m *testing.M) {
	args := os.Args
	switch {
	case len(args) > 2 && args[1] == "executor" && args[2] == GuardArg:
		os.Exit(GuardMain(args[3:]))
	case len(args) > 1 && args[1] == "var":
		root := command.Command{Name: "berth", Sub: []command.Command{{Name: "var", Sub: Commands}}}
		std := command.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(root.Main(context.Background(), args[1:], std))
	}
	goleak.VerifyTestMain(m)
}

// store is a cluster with one variable, or none.
type store struct {
	t      *testing.T
	addr   string
	caller *apitest.Caller

	mu       sync.Mutex
	v        *variable.OpenVariable
	index    uint64
	renewals int
	lostWith string                        // renewals are conflicts once this file exists
	released chan struct{}                 // closed by the first release
	inTheWay func() *variable.OpenVariable // what keeps the lock from a caller, nil for nothing
}

func newStore(t *testing.T) *store {
	s := &store{t: t, caller: &apitest.Caller{}, index: 10, released: make(chan struct{})}
	apitest.On(s.caller, variable.VariableApply, s.apply)
	apitest.On(s.caller, variable.VariableRenew, s.renew)
	apitest.On(s.caller, variable.VariableGet, s.get)
	apitest.On(s.caller, variable.VariableList, s.list)
	apitest.Answer(s.caller, admin.NamespaceList, admin.NamespaceListResponse{})
	s.addr = clitest.Serve(t, s.caller, clitest.NewAgent(t.TempDir()))
	return s
}

func (s *store) apply(
	_ context.Context, r *variable.VariableApplyRequest,
) (*variable.VariableApplyResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := uint64(0)
	if s.v != nil {
		now = s.v.ModifyIndex
	}
	resp := &variable.VariableApplyResponse{}
	held := s.v != nil && s.v.Lock != nil
	if r.Op == variable.VariableAcquire && s.inTheWay != nil {
		resp.Conflict = s.inTheWay()
		if resp.Conflict != nil {
			return resp, nil
		}
	}
	if r.CheckIndex != nil && *r.CheckIndex != now || held && r.Op == variable.VariableAcquire {
		resp.Conflict = &variable.OpenVariable{}
		if s.v != nil {
			resp.Conflict = s.v
		}
		return resp, nil
	}

	s.index++
	next := &variable.OpenVariable{Items: r.Items}
	next.Path = r.Path
	next.Namespace = r.RequestNamespace()
	next.ModifyIndex = s.index
	next.CreateIndex = s.index
	switch r.Op {
	case variable.VariableDelete:
		s.v = nil
		return resp, nil
	case variable.VariableAcquire:
		next.Lock = &variable.VariableLock{ID: "lock-1", TTL: r.Lock.TTL, LockDelay: r.Lock.LockDelay}
	case variable.VariableRelease:
		close(s.released)
	}
	s.v = next
	resp.Variable = next
	return resp, nil
}

func (s *store) renew(
	context.Context, *variable.VariableRenewRequest,
) (*variable.VariableRenewResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals++
	if _, err := os.Stat(s.lostWith); err == nil {
		return &variable.VariableRenewResponse{Conflict: &variable.OpenVariable{}}, nil
	}
	return &variable.VariableRenewResponse{Variable: &s.v.VariableMetadata}, nil
}

func (s *store) get(context.Context, *variable.VariableGetRequest) (*variable.VariableGetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.v == nil {
		return nil, structs.NotFoundf("there is no variable")
	}
	return &variable.VariableGetResponse{Variable: s.v}, nil
}

func (s *store) list(context.Context, *variable.VariableListRequest) (*variable.VariableListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &variable.VariableListResponse{}
	if s.v != nil {
		resp.Variables = append(resp.Variables, &s.v.VariableMetadata)
	}
	return resp, nil
}

// run runs berth var with arguments, and returns its output.
func (s *store) run(want int, typed string, args ...string) (out, errs string) {
	s.t.Helper()
	tree := []command.Command{{Name: "var", Sub: Commands}}
	line := append([]string{"var", args[0], "-address", s.addr}, args[1:]...)
	code, out, errs := clitest.RunTyped(s.t, tree, typed, line...)
	if code != want {
		s.t.Errorf("%q: exit code %d, want %d: %s%s", args, code, want, out, errs)
	}
	return out, errs
}

func TestPut_TakesItemsFromArgumentsFilesAndSpecifications(t *testing.T) {
	s := newStore(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		clitest.WriteFile(t, name, []byte(text))
		return name
	}
	password := write("password", "hunter2\n")
	asHCL := write("spec.nv.hcl", `path = "app/db"
items {
  user = "a${"b"}"
  port = 80
}`)
	asJSON := write("spec.json", `{"Path":"x","Items":{"user":"c"}}`)
	for _, c := range []struct {
		typed string
		args  []string
		want  map[string]string
	}{
		{
			"",
			[]string{"app/db", "user=me", "password=@" + password},
			map[string]string{"user": "me", "password": "hunter2\n"},
		},
		{"typed", []string{"app/db", "user=-", "x=a=b"}, map[string]string{"user": "typed", "x": "a=b"}},
		{"", []string{"@" + asHCL, "port=81"}, map[string]string{"user": "ab", "port": "81"}},
		{"", []string{"app/db", "@" + asJSON}, map[string]string{"user": "c"}},
		{`{"Path":"app/db","Items":{"k":"v"}}`, []string{"-in", "json", "-", "u=w"}, map[string]string{"k": "v", "u": "w"}},
	} {
		out, errs := s.run(0, c.typed, append([]string{"put"}, c.args...)...)
		if fmt.Sprint(map[string]string(s.v.Items)) != fmt.Sprint(c.want) || s.v.Path != "app/db" {
			t.Errorf("%q wrote %v", c.args, map[string]string(s.v.Items))
		}
		if !strings.Contains(out, `Variable "app/db" is created`) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%q: %s%s", c.args, out, errs)
		}
	}

	for _, bad := range [][]string{
		{"app/db", "=x"}, {"app/db", "canary"}, {"@" + asHCL + "x"}, {"-in", "x", "@" + asHCL},
	} {
		_, errs := s.run(2, "", append([]string{"put"}, bad...)...)
		if strings.Contains(errs, "canary") {
			t.Errorf("%q shows a value: %s", bad, errs)
		}
	}
	_, errs := s.run(2, `{"Path":"a","Items":{"k":hunter2}}`, "put", "-")
	if strings.Contains(errs, "hunter2") {
		t.Errorf("a wrong specification is shown: %s", errs)
	}
}

// An agent that gives no values names its socket, and the command to run there has no values either.
func TestPut_ShowsNoValueInTheNextCommand(t *testing.T) {
	s := newStore(t)
	apitest.Fail(s.caller, variable.VariableApply, &structs.Error{
		Kind:   structs.KindDenied,
		Text:   "over the socket alone",
		Socket: "/run/berth.sock",
	})
	_, errs := s.run(3, "", "put", "app/db", "password=hunter2")
	if strings.Contains(errs, "hunter2") || !strings.Contains(errs, "password=-") {
		t.Errorf("got %s", errs)
	}
}

func TestPut_ChecksTheIndex(t *testing.T) {
	s := newStore(t)
	s.run(5, "", "put", "-check-index", "7", "a", "k=v")
	s.run(0, "", "put", "-check-index", "0", "a", "k=v")
	spec := `{"Path":"a","ModifyIndex":3,"Items":{"k":"w"}}`
	s.run(5, spec, "put", "-")
	s.run(0, spec, "put", "-force", "-")
	s.run(5, "", "purge", "-check-index", "3", "a")
	s.run(0, "", "purge", "a")
	s.run(4, "", "get", "a")
}

func TestGet_ShowsAVariableInAFormat(t *testing.T) {
	s := newStore(t)
	s.run(0, "", "put", "app/db", "password=${hunter2}", "user=me")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-item", "user"}, "me"},
		{nil, "password  ${hunter2}"},
		{[]string{"-out", "json"}, `"password": "${hunter2}"`},
		{[]string{"-json"}, `"ModifyIndex": 11`},
		{[]string{"-out", "hcl"}, `password = "$${hunter2}"`},
		{[]string{"-out", "go-template", "-template", "{{ .Path }}={{ .Items.user }}"}, "app/db=me"},
	} {
		out, _ := s.run(0, "", append(append([]string{"get"}, c.args...), "app/db")...)
		if !strings.Contains(out, c.want) {
			t.Errorf("%q: got %s, want %s", c.args, out, c.want)
		}
	}
	out, _ := s.run(0, "", "get", "-out", "none", "app/db")
	if out != "" {
		t.Errorf("none: %s", out)
	}
	s.run(4, "", "get", "-item", "absent", "app/db")
	s.run(2, "", "get", "-out", "xml", "app/db")
	out, _ = s.run(0, "", "list")
	if !strings.Contains(out, "app/db") || strings.Contains(out, "hunter2") {
		t.Errorf("list: %s", out)
	}

	again, _ := s.run(0, "", "get", "-out", "hcl", "app/db")
	s.run(0, again, "put", "-in", "hcl", "-")
	if s.v.Items["password"] != "${hunter2}" {
		t.Errorf("the output of get became %q", s.v.Items["password"])
	}
}

func TestInit_WritesASpecificationThatPutReads(t *testing.T) {
	s := newStore(t)
	for _, format := range []string{"hcl", "json"} {
		name := filepath.Join(t.TempDir(), "spec."+format)
		s.run0("init", "-out", format, name)
		s.run(0, "", "put", "nomad/jobs/web", "@"+name)
		if s.v.Items["password"] != "change me" {
			t.Errorf("%s: wrote %v", format, map[string]string(s.v.Items))
		}
	}
}

// run0 runs a command that calls no agent.
func (s *store) run0(args ...string) {
	s.t.Helper()
	tree := []command.Command{{Name: "var", Sub: Commands}}
	code, out, errs := clitest.Run(s.t, tree, append([]string{"var"}, args...)...)
	if code != 0 {
		s.t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
	}
}

func TestLock_RunsTheCommandWhileItHoldsTheLock(t *testing.T) {
	s := newStore(t)
	out, _ := s.run(7, "", "lock", "app/leader", "echo", "held;", "exit 7")
	if strings.TrimSpace(out) != "held" {
		t.Errorf("got %q", out)
	}
	<-s.released
	out, _ = newStore(t).run(0, "", "lock", "-shell=false", "app/leader", "echo", "$HOME")
	if strings.TrimSpace(out) != "$HOME" {
		t.Errorf("without a shell: got %q", out)
	}
}

// TestLock_SaysForWhatItWaits changes the holder of a lock, and ends it, each time after the line about it.
func TestLock_SaysForWhatItWaits(t *testing.T) {
	s := newStore(t)
	holders := []struct {
		lock *variable.VariableLock
		at   time.Time
		text string
	}{
		{&variable.VariableLock{}, time.Unix(60, 0), "another one has it; the variable changed at 1970-01-01T00:01:00Z\n"},
		{&variable.VariableLock{}, time.Unix(90, 0), "another one has it; the variable changed at 1970-01-01T00:01:30Z\n"},
		{nil, time.Unix(2000, 0), "nobody has it now; after a holder that did not renew it, nobody gets it during its delay\n"},
	}
	next := 0
	s.inTheWay = func() *variable.OpenVariable {
		if next == len(holders) {
			return nil
		}
		v := &variable.OpenVariable{}
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
	s := newStore(t)
	ctx, interrupt := context.WithCancel(t.Context())
	s.inTheWay = func() *variable.OpenVariable { return &variable.OpenVariable{} }
	apitest.On(s.caller, variable.VariableGet, func(
		ctx context.Context, _ *variable.VariableGetRequest,
	) (*variable.VariableGetResponse, error) {
		interrupt()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	var errs strings.Builder
	root := command.Command{Name: "berth", Sub: []command.Command{{Name: "var", Sub: Commands}}}
	line := []string{"var", "lock", "-address", s.addr, "-namespace", "prod", "app/leader", "true"}
	code := root.Main(ctx, line, command.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
	const want = `Error: interrupted while it waited for the lock of the variable "app/leader"; ` +
		"to see the variable: berth var get -namespace prod app/leader\n"
	if code != structs.KindTimeout.ExitCode() || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

func TestLock_ItsWaitFailsWithTheNextStep(t *testing.T) {
	s := newStore(t)
	s.inTheWay = func() *variable.OpenVariable { return &variable.OpenVariable{} }
	apitest.On(s.caller, variable.VariableGet, func(
		context.Context, *variable.VariableGetRequest,
	) (*variable.VariableGetResponse, error) {
		return nil, structs.Internalf("the state is damaged")
	})
	_, errs := s.run(1, "", "lock", "app/leader", "true")
	if !strings.HasSuffix(errs, "the state is damaged; to see the variable: berth var get app/leader\n") {
		t.Errorf("it said %q", errs)
	}
}

// The child and its own children end when the lock is lost.
func TestLock_EndsTheCommandWhenTheLockIsLost(t *testing.T) {
	s := newStore(t)
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

// Nobody renews the lock of a berth that was killed: its command ends before another one gets the lock.
func TestLock_EndsTheCommandWhenBerthIsKilled(t *testing.T) {
	s := newStore(t)
	berth := exec.Command("/proc/self/exe", "var", "lock", "-address", s.addr, "app/leader", daemonic)
	out, err := berth.StdoutPipe()
	if err == nil {
		err = berth.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pids := readPids(t, out, 3)
	if err := berth.Process.Kill(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
	_, _ = io.Copy(io.Discard, out) // until the guard has ended, too
	if err := berth.Wait(); err == nil {
		t.Error("berth has ended by itself")
	}
	select {
	case <-s.released:
		t.Error("the lock was given back")
	default:
	}
}

// The processes that the command leaves behind do not outlive the lock.
func TestLock_EndsWhatTheCommandLeaves(t *testing.T) {
	s := newStore(t)
	file := filepath.Join(t.TempDir(), "pid")
	daemon := fmt.Sprintf("setsid sh -c 'echo $$ > %s; exec sleep 600'", file)
	s.run(0, "", "lock", "app/leader", daemon+" & until [ -s "+file+" ]; do :; done")
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, strings.TrimSpace(string(pid)))
}

// A command that ignores SIGTERM is killed after the grace. The guard reports how a command has ended.
func TestGuard(t *testing.T) {
	start := func(t *testing.T, program string) (guard *exec.Cmd, out io.Reader, parent *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		t.Cleanup(func() { _ = w.Close() })
		guard = exec.Command("/proc/self/exe", "executor", GuardArg, "1000000", "/bin/sh", "-c", program)
		guard.ExtraFiles = []*os.File{r}
		guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err = guard.StdoutPipe()
		if err == nil {
			err = guard.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return guard, out, w
	}
	t.Run("grace", func(t *testing.T) {
		guard, out, parent := start(t, `trap "" TERM; echo $$; while :; do sleep 600; done`)
		pids := readPids(t, out, 1)
		_ = parent.Close()
		awaitEnd(t, pids[0])
		_ = guard.Wait()
	})
	t.Run("code", func(t *testing.T) {
		guard, _, _ := start(t, "exit 7")
		_ = guard.Wait()
		if code := guard.ProcessState.ExitCode(); code != 7 {
			t.Errorf("got %d", code)
		}
	})
	t.Run("signal", func(t *testing.T) {
		guard, _, _ := start(t, "kill -USR1 $$")
		_ = guard.Wait()
		if code := guard.ProcessState.ExitCode(); code != 128+int(syscall.SIGUSR1) {
			t.Errorf("got %d", code)
		}
	})
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
