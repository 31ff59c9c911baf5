package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// runsCommands runs commands beside the program of a real container.
func runsCommands(t *testing.T, n *node, d *Driver) {
	cfg := n.task("commands", "out:up", "trap:0")
	cfg.User = "7:8"
	n.start(d, cfg)
	n.awaitOutput(cfg, "up\nready\n")
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		result, err := d.Exec(n.ctx, cfg.ID, &driver.ExecConfig{
			Command: []string{"/program", "user", "env:GREETING", "err:beside", "exit:7"},
			TTY:     tty,
			Stdout:  &out,
			Stderr:  &errs,
		})
		got := strings.ReplaceAll(out.String()+errs.String(), "\r\n", "\n")
		if err != nil || result.ExitCode != 7 || got != "7:8\nhello\nbeside\n" {
			t.Errorf("tty %t: got %+v, %v: %q", tty, result, err, got)
		}
	}
	text := strings.Repeat("0123456789", 20_000)
	var out bytes.Buffer
	result, err := d.Exec(n.ctx, cfg.ID, &driver.ExecConfig{
		Command: []string{"/program", "echo"},
		Stdin:   strings.NewReader(text),
		Stdout:  &out,
		Stderr:  &out,
	})
	if err != nil || !result.Successful() || out.String() != text {
		t.Errorf("got %+v, %v and %d bytes", result, err, out.Len())
	}
	endsACommand(t, n, d, cfg)
	result, err = d.Exec(n.ctx, cfg.ID, &driver.ExecConfig{
		Command: []string{"/no-such"},
		Stdout:  io.Discard,
		Stderr:  io.Discard,
	})
	if err == nil && result.Successful() {
		t.Error("a program that does not exist has run")
	}
	if err := d.Stop(n.ctx, cfg.ID, "SIGKILL", time.Second); err != nil {
		t.Fatal(err)
	}
	_, err = d.Exec(n.ctx, cfg.ID, &driver.ExecConfig{
		Command: []string{"/program"},
		Stdout:  io.Discard,
		Stderr:  io.Discard,
	})
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("in a task that has ended: %v", err)
	}
	n.destroy(d, cfg)
}

// endsACommand ends a context: the process of the command is killed.
func endsACommand(t *testing.T, n *node, d *Driver, cfg *driver.TaskConfig) {
	t.Helper()
	processes := func() uint64 {
		s, err := d.Stats(n.ctx, cfg.ID)
		if err != nil {
			t.Fatal(err)
		}
		return s.PIDs
	}
	before := processes()
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	began, out := io.Pipe()
	go func() {
		_, _ = began.Read(make([]byte, 16))
		cancel()
		_, _ = io.Copy(io.Discard, began)
	}()
	_, err := d.Exec(ctx, cfg.ID, &driver.ExecConfig{
		Command: []string{"/program", "out:up", "ignore"},
		Stdout:  out,
		Stderr:  out,
	})
	_ = out.Close()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for ; processes() > before; time.Sleep(10 * time.Millisecond) {
		if n.ctx.Err() != nil {
			t.Fatalf("%d processes are in the container, want %d", processes(), before)
		}
	}
}
