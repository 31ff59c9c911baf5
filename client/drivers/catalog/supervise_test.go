package catalog

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/store"
	"berth/internal/backoff"
	"berth/internal/process"
	"berth/test/kit"
)

func openStore(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// supervised is a supervisor that runs until stop, with the processes that it used.
type supervised struct {
	used   chan *Process
	failed chan error
	stop   func()
}

func supervise(t *testing.T, c *Catalog, db *store.DB, pace ...backoff.Backoff) *supervised {
	t.Helper()
	s := &supervised{used: make(chan *Process, 100), failed: make(chan error, 100)}
	sup := Supervisor{
		Catalog:  c,
		Records:  db,
		Name:     "tester",
		Outlives: true,
		Session: func(ctx context.Context, p *Process) error {
			s.used <- p
			<-ctx.Done()
			return ctx.Err()
		},
		Failed: func(err error) { s.failed <- err },
	}
	if len(pace) > 0 {
		sup.Pace = pace[0]
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sup.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(func() {
		s.stop()
		none := func(string) bool { return false }
		if err := c.KillOthers(context.Background(), db, none); err != nil {
			t.Error(err)
		}
	})
	return s
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing happens within two minutes")
		panic("unreachable")
	}
}

var quick = backoff.Backoff{Min: 100 * time.Millisecond, Max: 400 * time.Millisecond}

func TestSupervisor_StartsAnotherProcessWhenOneEnds(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	db := openStore(t)
	s := supervise(t, c, db, quick)
	first := receive(t, s.used)
	record, err := processes.Get(db, "tester")
	if err != nil || record == nil || *record != first.Reattach() {
		t.Fatalf("recorded is %v, %v", record, err)
	}
	_, err = first.attached.stderr.file.WriteString("no more licences\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(first.Reattach().Process.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, s.failed); !strings.Contains(err.Error(), "signal: killed") ||
		!strings.Contains(err.Error(), "no more licences") {
		t.Errorf("got %v", err)
	}
	second := receive(t, s.used)
	if second.Reattach().Process == first.Reattach().Process {
		t.Error("the ended process is used")
	}
	if left := directories(t, c); !slices.Equal(left, []string{second.Reattach().Dir}) {
		t.Errorf("the directories are %v", left)
	}
}

// A process that ends at once is not started in a hot loop.
func TestSupervisor_PacesTheStarts(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	program(t, c.cfg.Dir, "p", "exits")
	began := time.Now()
	s := supervise(t, c, openStore(t), quick)
	for range 4 {
		if err := receive(t, s.failed); !strings.Contains(err.Error(), "no licence") {
			t.Errorf("got %v", err)
		}
	}
	if took := time.Since(began); took < 700*time.Millisecond { // 100, 200 and 400 ms
		t.Errorf("four starts in %s", took)
	}
}

func TestSupervisor_StopsInAPause(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	program(t, c.cfg.Dir, "p", "exits")
	pause := backoff.Backoff{Min: 10 * time.Minute, Max: 10 * time.Minute}
	s := supervise(t, c, openStore(t), pause)
	receive(t, s.failed) // the pause begins
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it stopped after %s", took)
	}
}

func TestSupervisor_TakesUpTheProcessOfAnEarlierAgent(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	db := openStore(t)
	s := supervise(t, c, db)
	first := receive(t, s.used).Reattach()
	s.stop()
	log := &kit.Output{}
	c.logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: log})
	s = supervise(t, c, db)
	if second := receive(t, s.used).Reattach(); second != first {
		t.Errorf("the process is %v, was %v", second, first)
	}
	line := []byte(`{"@level":"warn","@message":"out of paper","@module":"x","tray":2}` + "\n")
	f, err := os.OpenFile(filepath.Join(first.Dir, stderrName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(line); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(2 * time.Minute); !strings.Contains(log.String(), "out of paper: tray=2"); {
		if time.Now().After(limit) {
			t.Fatalf("the log of the plugin is lost: %s", log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sleeper is a process that is nobody's plugin.
func sleeper(t *testing.T) process.Ref {
	t.Helper()
	cmd := exec.Command("sleep", "60")
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
	return ref
}

// alive reports whether a child of the test runs.
func alive(ref process.Ref) bool {
	status := syscall.WaitStatus(0)
	pid, err := syscall.Wait4(ref.PID, &status, syscall.WNOHANG, nil)
	return err == nil && pid == 0
}

// The kernel has given the pid of a plugin to another process meanwhile.
func TestSupervisor_LeavesAForeignProcessAlone(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	boot, err := process.BootID()
	if err != nil {
		t.Fatal(err)
	}
	foreign := sleeper(t)
	for name, record := range map[string]Reattach{
		"a process that began later": {
			Process: process.Ref{PID: foreign.PID, Start: foreign.Start - 1},
			BootID:  boot,
		},
		"a process of another boot": {Process: foreign, BootID: "another"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openStore(t)
			record.Network = "unix"
			record.Address = "/none"
			record.Dir = filepath.Join(c.cfg.Sockets, socketDir+"1")
			record.Digest = c.plugins["tester"].digest
			if err := processes.Put(db, "tester", &record); err != nil {
				t.Fatal(err)
			}
			s := supervise(t, c, db)
			if used := receive(t, s.used).Reattach(); used.Process == foreign {
				t.Error("the foreign process is used")
			}
			if !alive(foreign) {
				t.Error("the foreign process was killed")
			}
		})
	}
}

// unreadable is what another version may have written.
type unreadable struct{ Process string }

func TestSupervisor_GoesOnWithoutARecordThatItCannotRead(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	db := openStore(t)
	table := store.NewTable[unreadable]("plugin_processes")
	if err := table.Put(db, "tester", &unreadable{"what?"}); err != nil {
		t.Fatal(err)
	}
	if _, err := processes.Get(db, "tester"); err == nil {
		t.Fatal("the record can be read")
	}
	leaked, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	leaked.Detach()
	err = c.KillOthers(t.Context(), db, func(string) bool { return true })
	if err == nil || !strings.Contains(err.Error(), `"tester"`) {
		t.Errorf("the record is not named: %v", err)
	}
	if alive(leaked.Reattach().Process) {
		t.Error("its process was leaked")
	}
	receive(t, supervise(t, c, db).used)
}

func TestKillOthers_KillsWhatIsNotWanted(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	db := openStore(t)
	var all []Reattach
	for _, name := range []string{"kept", "denied"} {
		p, err := c.Start(t.Context(), "tester")
		if err != nil {
			t.Fatal(err)
		}
		record := p.Reattach()
		p.Detach()
		if err := processes.Put(db, name, &record); err != nil {
			t.Fatal(err)
		}
		all = append(all, record)
	}
	err = c.KillOthers(t.Context(), db, func(name string) bool { return name == "kept" })
	if err != nil {
		t.Fatal(err)
	}
	if !alive(all[0].Process) || alive(all[1].Process) {
		t.Errorf("of %v the first is to run, alone", all)
	}
	left, err := processes.All(db, "")
	if err != nil || len(left) != 1 || left[0].Key != "kept" {
		t.Errorf("recorded are %v, %v", left, err)
	}
	if dirs := directories(t, c); !slices.Equal(dirs, []string{all[0].Dir}) {
		t.Errorf("the directories are %v", dirs)
	}
	err = c.KillOthers(t.Context(), db, func(string) bool { return false })
	if err != nil || alive(all[0].Process) {
		t.Errorf("the other still runs: %v", err)
	}
}

// The agent was killed after the start of a process and before its record.
func TestKillOthers_KillsAProcessWithoutARecord(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), "tester")
	if err != nil {
		t.Fatal(err)
	}
	p.Detach()
	foreign := sleeper(t)
	dir := filepath.Join(c.cfg.Sockets, socketDir+"7")
	err = errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, recordName), []byte("no record"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	err = c.KillOthers(t.Context(), openStore(t), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if alive(p.Reattach().Process) || !alive(foreign) {
		t.Error("the process still runs, or another does not")
	}
	if left := directories(t, c); len(left) != 0 {
		t.Errorf("the directories are %v", left)
	}
}
