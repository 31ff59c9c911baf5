package interop

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/api"
	"berth/structs"
)

// fakeExec is a command that repeats its input and tells its words and the width of its terminal.
func fakeExec(allocID, task string) (api.ExecFunc, error) {
	if allocID != "a1" || task != "app" {
		return nil, structs.Invalidf("no task %q", task)
	}
	return func(ctx context.Context, x *api.Exec) (int, error) {
		_, err := io.Copy(x.Stdout, x.Stdin)
		if err != nil {
			return 0, err
		}
		if x.TTY {
			select {
			case size := <-x.Resize:
				_, _ = io.WriteString(x.Stdout, strings.Repeat("|", size.Width))
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		_, err = io.WriteString(x.Stderr, strings.Join(x.Command, ","))
		return 7, err
	}, nil
}

func TestClient_RunsACommand(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	alloc := &public.Allocation{ID: "a1", NodeID: "n1"}
	text := strings.Repeat("0123456789", 20_000)
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		sizes := make(chan public.TerminalSize, 1)
		sizes <- public.TerminalSize{Height: 2, Width: 3}
		code, err := c.Allocations().Exec(t.Context(), alloc, "app", tty, []string{"a b", "c"},
			strings.NewReader(text), &out, &errs, sizes, nil)
		want := text
		if tty {
			want += "|||"
		}
		if err != nil || code != 7 || out.String() != want || errs.String() != "a b,c" {
			t.Errorf("tty %t: got %d, %v, %d bytes and %q", tty, code, err, out.Len(), errs.String())
		}
	}
	_, err := c.Allocations().Exec(t.Context(), alloc, "none", false, []string{"a"}, strings.NewReader(""),
		io.Discard, io.Discard, nil, nil)
	if err == nil || !strings.Contains(err.Error(), `no task "none"`) {
		t.Errorf("an unknown task: %v", err)
	}
}

// testExec runs commands in a running allocation of a real agent.
func testExec(t *testing.T, c *public.Client, alloc *public.Allocation) {
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		code, err := c.Allocations().Exec(t.Context(), alloc, "app", tty,
			[]string{"sh", "-c", "read line; echo got $line; test -t 1 && echo tty; exit 7"},
			strings.NewReader("input\n"), &out, &errs, nil, nil)
		got := strings.ReplaceAll(out.String(), "\r\n", "\n")
		if err != nil || code != 7 ||
			!strings.Contains(got, "got input\n") || strings.Contains(got, "tty\n") != tty {
			t.Errorf("tty %t: got %d, %v: %q %q", tty, code, err, got, errs.String())
		}
	}
	_, err := c.Allocations().Exec(t.Context(), alloc, "app", false, []string{"no-such-program"},
		strings.NewReader(""), io.Discard, io.Discard, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that does not exist: %v", err)
	}
}
