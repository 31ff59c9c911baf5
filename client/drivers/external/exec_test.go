package external

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/structs"
)

// command runs a shell script in a task, and returns its end and its output.
func (a *agent) command(ctx context.Context, id, script, stdin string) (*driver.ExitResult, string, error) {
	var out, errs bytes.Buffer
	result, err := a.Exec(ctx, id, &driver.ExecConfig{
		Command: []string{"sh", "-c", script},
		Stdin:   strings.NewReader(stdin),
		Stdout:  &out,
		Stderr:  &errs,
	})
	return result, out.String() + errs.String(), err
}

func TestExec_RunsACommandOfThePlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	h := a.start(cfg)
	for range 2 {
		text := strings.Repeat("0123456789", 20_000)
		result, out, err := a.command(t.Context(), cfg.ID, "cat; echo end >&2; exit 7", text)
		if err != nil || result.ExitCode != 7 || out != text+"end\n" {
			t.Fatalf("got %+v, %v and %d bytes", result, err, len(out))
		}
		a.stop() // the next agent takes the task up
		a = f.agent()
		if err := a.Recover(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	a.destroy(cfg.ID)
}

func TestExec_SendsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	stdin, feed := io.Pipe()
	sizes := make(chan driver.TerminalSize, 1)
	sizes <- driver.TerminalSize{Height: 24, Width: 80}
	out := make(chan []byte, 100)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Exec(t.Context(), cfg.ID, &driver.ExecConfig{
			Command: []string{"head", "-n1"},
			TTY:     true,
			Stdin:   stdin,
			Stdout:  writerTo(out),
			Resize:  sizes,
		})
		ended <- err
	}()
	if got := string(<-out); got != "24x80\n" {
		t.Errorf("got the size %q", got)
	}
	if _, err := io.WriteString(feed, "line\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || string(<-out) != "line\n" {
		t.Errorf("got %v", err)
	}
	if _, err := feed.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the input is not closed: %v", err)
	}
	a.destroy(cfg.ID)
}

// writerTo is a writer into a channel.
type writerTo chan<- []byte

func (w writerTo) Write(p []byte) (int, error) {
	w <- bytes.Clone(p)
	return len(p), nil
}

func TestExec_TheEndOfItsContextKillsTheCommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := a.command(ctx, cfg.ID, "exec sleep 1000", "")
		ended <- err
	}()
	f.until("the command runs", func() bool { return len(f.plugin.Lines("commands")) == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pid := f.plugin.Lines("commands")[0]
	f.until("the command is gone", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return os.IsNotExist(err)
	})
	a.destroy(cfg.ID)
}

func TestExec_OfAFaultyPlugin(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]structs.Kind{
		drivertest.Exit:    structs.KindUnavailable,
		drivertest.Close:   structs.KindInternal,
		drivertest.Huge:    structs.KindUnavailable,
		drivertest.Garbage: structs.KindUnavailable,
		drivertest.Fail:    structs.KindInternal,
		drivertest.Retry:   structs.KindUnavailable,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			a := f.agent()
			cfg := f.task("a1", loops)
			a.start(cfg)
			f.plugin.Set("ExecTaskStreaming", fault)
			_, _, err := a.command(t.Context(), cfg.ID, "cat", "")
			if !structs.IsKind(err, want) {
				t.Errorf("got %v, want an error of kind %s", err, want)
			}
			f.plugin.Set("ExecTaskStreaming", "")
			f.until("a command runs", func() bool {
				_, _, err = a.command(t.Context(), cfg.ID, "true", "")
				return err == nil
			})
			a.destroy(cfg.ID)
		})
	}
}

// A plugin that hangs is left alone when the user leaves.
func TestExec_OfAPluginThatHangsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	f.plugin.Set("ExecTaskStreaming", drivertest.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		f.plugin.Await("ExecTaskStreaming", 1)
		cancel()
	}()
	_, _, err := a.command(ctx, cfg.ID, "true", strings.Repeat("x", 1<<20))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	a.destroy(cfg.ID)
}

func TestExec_Rejections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.plugin.Set("result", "no")
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	if _, _, err := a.command(t.Context(), cfg.ID, "true", ""); !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("a plugin that reports no end: %v", err)
	}
	if _, _, err := a.command(t.Context(), "a2/web", "true", ""); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	_, err := a.Exec(t.Context(), cfg.ID, &driver.ExecConfig{})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("no command: %v", err)
	}
	a.destroy(cfg.ID)

	f = newFixture(t)
	f.plugin.Set("exec", "no")
	a = f.agent()
	cfg = f.task("a1", loops)
	a.start(cfg)
	_, _, err = a.command(t.Context(), cfg.ID, "true", "")
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "runs no commands") {
		t.Errorf("a plugin that runs no commands: %v", err)
	}
	a.destroy(cfg.ID)
}

// TestExec_InATaskOfThePeersDriver runs a command with a driver that nobody here wrote.
func TestExec_InATaskOfThePeersDriver(t *testing.T) {
	t.Parallel()
	f := newPeer(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	result, out, err := a.command(t.Context(), cfg.ID, "cat; echo $GREETING; exit 7", "text\n")
	if err != nil || result.ExitCode != 7 || out != "text\nhello\n" {
		t.Errorf("got %+v, %v: %q", result, err, out)
	}
	a.destroy(cfg.ID)
}

// A stopped process answers nothing, and the kernel takes what is sent to it.
func TestExec_OfAPluginThatHangsHasABound(t *testing.T) {
	shorten(t)
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", loops)
	a.start(cfg)
	f.plugin.Set("ExecTaskStreaming", drivertest.Hang)
	f.plugin.Set("Capabilities", drivertest.Hang)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := a.command(ctx, cfg.ID, "true", "")
	if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
	f.plugin.Set("ExecTaskStreaming", "")
	f.plugin.Set("Capabilities", "")
	a.destroy(cfg.ID)
}
