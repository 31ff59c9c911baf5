package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/test/kit"
)

// program returns an agent whose program is a script of a shell.
func program(t *testing.T, script string) *Agent {
	s := DefaultSettings()
	s.Every = time.Hour
	s.Command = []string{"/bin/sh", "-c", script}
	kit.Must(t, s.Validate())
	return New(s, save, hclog.NewNullLogger())
}

func TestPipe_GivesAProgramTheWholeArchiveAndItsName(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 27, 13, 0, 0, 0, time.UTC)
	kit.Must(t, program(t, `cat > "`+dir+`/$BERTH_SNAPSHOT_NAME"`).saveOne(t.Context(), now))
	got, err := os.ReadFile(filepath.Join(dir, "berth-20261127T130000Z.snap"))
	if err != nil || string(got) != content {
		t.Errorf("the program got %q, %v", got, err)
	}
}

func TestPipe_FailsUnlessTheProgramTookAll(t *testing.T) {
	large := func(_ context.Context, w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20)) // more than a pipe holds
		return err
	}
	for script, want := range map[string]string{
		"cat >/dev/null; echo no such bucket; exit 3": "exit status 3: no such bucket",
		"exit 0": "broken pipe",
	} {
		a := program(t, script)
		a.save = large
		err := a.saveOne(t.Context(), time.Now())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
	}
}

// TestPipe_EndsAProgramThatHangs waits for the end of a child of the shell, which holds the pipe.
func TestPipe_EndsAProgramThatHangs(t *testing.T) {
	r, w, err := os.Pipe()
	kit.Must(t, err)
	defer func() { _ = r.Close() }()
	a := program(t, "sleep 1000 & echo started >&3; wait")
	ctx, cancel := context.WithCancel(t.Context())
	a.put = func(ctx context.Context, name string, archive io.Reader) error {
		cmd := a.process(ctx, name)
		cmd.ExtraFiles = []*os.File{w}
		err := cmd.Start()
		_ = w.Close()
		if err != nil {
			return err
		}
		return cmd.Wait()
	}
	ended := make(chan error, 1)
	go func() { ended <- a.saveOne(ctx, time.Now()) }()
	_, err = r.Read(make([]byte, 16))
	kit.Must(t, err)
	cancel()
	err = <-ended
	if err == nil {
		t.Error("the archive was saved")
	}
	_, err = io.ReadAll(r) // its end: no process has the other end
	kit.Must(t, err)
}

func TestPipe_NamesTheSettingOfAProgramThatIsLate(t *testing.T) {
	a := program(t, "sleep 1000")
	a.settings.Timeout = time.Millisecond
	err := a.saveOne(t.Context(), time.Now())
	if err == nil || !strings.Contains(err.Error(), "longer than server.snapshot_agent.timeout") {
		t.Errorf("got %v", err)
	}
}

// A program that would start after the end of the time does not start.
func TestPipe_NamesTheSettingOfAProgramThatStartsLate(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errLate)
	defer cancel()
	<-ctx.Done()
	err := program(t, "exit 0").pipe(ctx, "late.snap", strings.NewReader(""))
	if !errors.Is(err, errLate) {
		t.Errorf("got %v", err)
	}
}

// The archive may see the end of the time before transfer does.
func TestSaveOne_NamesTheSettingOfAnArchiveThatIsLate(t *testing.T) {
	a := program(t, "exit 0")
	a.settings.Timeout = 50 * time.Millisecond
	a.put = func(context.Context, string, io.Reader) error { return nil }
	a.save = func(ctx context.Context, _ io.Writer) error {
		<-ctx.Done()
		return fmt.Errorf("at work: %w", ctx.Err())
	}
	err := a.saveOne(t.Context(), time.Now())
	if !errors.Is(err, errLate) {
		t.Errorf("got %v", err)
	}
}

func TestRun_WithAProgramBeginsAtTheNextPeriod(t *testing.T) {
	a := program(t, "exit 1")
	synctest.Test(t, func(t *testing.T) {
		names := make(chan string, 8)
		a.put = func(_ context.Context, name string, archive io.Reader) error {
			_, err := io.Copy(io.Discard, archive)
			names <- name
			return err
		}
		time.Sleep(10 * time.Minute)
		stop := run(a)
		defer stop()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		first, second := <-names, <-names
		if first != "berth-20000101T010000Z.snap" || second != "berth-20000101T020000Z.snap" || len(names) > 0 {
			t.Errorf("the archives are %s, %s and %d more", first, second, len(names))
		}
	})
}
