package fencing

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// hangs makes an agent that hangs with a child. Both have the pipe open, and so has no other process.
func hangs(t *testing.T, p *fifo) string {
	t.Helper()
	return agentOf(t, "exec 3>"+p.path+"\necho begins\n"+p.hang+" &\necho ready >&3\n"+p.hang+"\n")
}

func TestFence_TimeoutEndsTheAgentAndItsChildren(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	d := Device{Name: "d", Agent: hangs(t, pipe), Timeout: time.Second}
	done := fence(t.Context(), &d)
	got := <-done
	if got.Reason != "off: the agent did not end within 1s" || got.ExitCode != -1 || got.Proved {
		t.Errorf("got %+v", got)
	}
	pipe.awaitEnd()
}

func TestFence_ContextEndsTheAgentAndItsChildren(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	d := Device{Name: "d", Agent: hangs(t, pipe)}
	ctx, cancel := context.WithCancel(t.Context())
	done := fence(ctx, &d)
	pipe.awaitLine()
	cancel()
	want := Result{Action: "off", ExitCode: -1, Output: "begins\n",
		Reason: "off: the server has stopped the agent"}
	if got := <-done; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	pipe.awaitEnd()
}

// An agent that is asked to end may exit with any code. It has not reported the end of its action.
func TestFence_AnAgentThatIsEndedProvesNothing(t *testing.T) {
	t.Parallel()
	for action, earlier := range map[string]string{
		"off":    "",
		"status": "[ $action = off ] && exit 0\n",
	} {
		pipe := newFifo(t)
		d := Device{Name: "d", Agent: agentOf(t, earlier+"exec 3>"+pipe.path+"\n"+
			"trap 'echo bye; [ $action = off ] && exit 0; exit 2' TERM\necho ready >&3\n"+
			pipe.hang+" & wait\n")}
		ctx, cancel := context.WithCancel(t.Context())
		done := fence(ctx, &d)
		pipe.awaitLine()
		cancel()
		want := Result{Action: action, ExitCode: -1, Output: "bye\n",
			Reason: action + ": the server has stopped the agent"}
		if got := <-done; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestFence_KillsAnAgentThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	d := Device{
		Name:    "d",
		Agent:   agentOf(t, "exec 3>"+pipe.path+"\ntrap '' TERM\necho ready >&3\n"+pipe.hang+"\n"),
		Timeout: 5 * time.Second, // the grace is a second
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := fence(ctx, &d)
	pipe.awaitLine()
	cancel()
	<-done
	pipe.awaitEnd()
}

func TestFence_EndsTheProcessesThatAnAgentLeaves(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	d := Device{Name: "d", Agent: agentOf(t, "exec 3>"+pipe.path+"\n"+pipe.hang+" &\n"+offThenOff)}
	if got := d.Fence(t.Context(), node()); !got.Proved {
		t.Errorf("got %+v", got)
	}
	pipe.awaitEnd()
}

func TestFence_DoesNotWaitForTheOutputOfOthers(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	d := Device{Name: "d", Agent: agentOf(t, `[ $action = status ] && exit 2
setsid `+pipe.hang+` &
until [ "$(ps -o sid= -p $!)" -ne $$ ]; do :; done
exit 0
`)}
	if got := d.Fence(t.Context(), node()); !got.Proved {
		t.Errorf("got %+v", got)
	}
}

// A file system that does not answer holds the agent up.
func TestFence_DoesNotWaitForAnAgentThatCannotBeKilled(t *testing.T) {
	t.Parallel()
	hang := kit.HangLookUps(t)
	d := Device{Name: "d", Agent: agentOf(t, "echo begins\n[ -e "+hang.Path+" ]\n"+offThenOff)}
	ctx, cancel := context.WithCancel(t.Context())
	done := fence(ctx, &d)
	hang.Await()
	hang.Hold()
	cancel()
	want := Result{Action: "off", ExitCode: -1, Output: "begins\n",
		Reason: "off: the server has stopped the agent, and the agent cannot be killed: it may act later"}
	if got := <-done; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

const (
	helperVar  = "FENCING_HELPER" // the path of the agent that this executable runs
	helperNode = "helper"
)

// runHelper fences with an agent, as a server does.
func runHelper() int {
	d := Device{Name: helperNode, Agent: os.Getenv(helperVar)}
	fmt.Println(d.Fence(context.Background(), node()))
	return 0
}

func TestFence_AgentsEndWithTheServer(t *testing.T) {
	t.Parallel()
	pipe := newFifo(t)
	agent := agentOf(t, "exec 3>"+pipe.path+"\necho ready >&3\nexec "+pipe.hang+"\n")
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), helperVar+"="+agent)
	server.SysProcAttr = &unix.SysProcAttr{Setsid: true} // as an agent of its own
	err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	pipe.awaitLine()
	_ = server.Process.Kill()
	_ = server.Wait()
	pipe.awaitEnd()
}

func TestFence_KeepsTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	d := Device{Name: "d", Agent: agentOf(t, "seq 1000000\nseq 1000000 >&2\necho last; exit 1\n")}
	got := d.Fence(t.Context(), node())
	if len(got.Output) > 4<<10 || len(got.Output) < 4000 || !strings.HasSuffix(got.Output, "\n1000000\nlast\n") {
		t.Errorf("the output has %d bytes: %q", len(got.Output), got.Output)
	}
}

func TestFence_ShowsNoSecret(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other")
	err := os.WriteFile(other, []byte("s3cret"), 0o400)
	if err != nil {
		t.Fatal(err)
	}
	d := Device{
		Name: "d",
		Agent: agentOf(t, `echo begin; echo "-P '$password' -L admin"; echo "$password" >&2; echo s3cret; echo end
printf 'the password is %.4s' "$password"
exit 1
`),
		SecretFiles: map[string]string{"password": secretFile(t, "hunter2\n"), "hexadecimal_kg": other},
	}
	got := d.Fence(t.Context(), node())
	want := "begin\n" + strings.Repeat(secretLine+"\n", 3) + "end\n" + secretLine + "\n"
	if got.Output != want {
		t.Errorf("got %q, want %q", got.Output, want)
	}
}

// An agent in its debug mode prints all of its input, and parts of it.
func TestFence_ShowsNoSecretOfAnAgentThatPrintsItsInput(t *testing.T) {
	t.Parallel()
	d := Device{
		Name:    "d",
		Agent:   filepath.Join(t.TempDir(), "fence_loud"),
		Options: map[string]string{"ip": "bmc"},
		SecretFiles: map[string]string{
			"password": secretFile(t, "s3cret\n"),
			"proxy":    secretFile(t, "http://fence:hunter%402@proxy:3128\n"),
		},
	}
	writeProgram(t, d.Agent, `#!/bin/sh
input=$(cat)
echo "$input"
echo "$input" >&2
echo "user fence, password hunter%402"
echo "decoded: hunter@2" >&2
exit 1
`)
	got := d.Fence(t.Context(), node())
	hidden := secretLine + "\n"
	input := "ip=bmc\n" + hidden + hidden + "plug=web1\nnodename=web1\naction=off\n"
	if want := input + input + hidden + hidden; got.Output != want {
		t.Errorf("got %q, want %q", got.Output, want)
	}
	if want := "off: the agent ended with exit code 1; expected 0"; got.Reason != want {
		t.Errorf("the reason is %q, want %q", got.Reason, want)
	}
}
